// Package crashtest treats a scheduler as the world does: its tests run it in
// child processes, kill them, freeze them, fill their disk and damage their
// files, and then compare what is left with what was promised.
//
// A child is the test binary itself, started again with a role. It tells its
// parent through a pipe what was acknowledged, and its handlers write what they
// did to a file: neither is lost when the child is killed. Out of both, and of
// what the scheduler says in the end, comes a [History], and [History.Check]
// finds what in it breaks a promise.
package crashtest
