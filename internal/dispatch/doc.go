// Package dispatch knows where and when work goes: on the leader it holds the
// timers of everything that is due later, the queues of everything that is
// ready, and what each worker holds.
//
// It is the leader's memory and never the truth. It is filled from the state
// when leadership is won, follows the events of each applied entry, and is
// thrown away when leadership is lost. What it decides becomes commands in the
// batch that is about to be proposed ([Dispatcher.Prepare]); the state checks
// each of them again, and a refused one is decided anew.
//
// # Order of locks
//
// Prepare, Applied and Lead are called under the lock of the state; the
// dispatcher's own lock is taken inside it, never the other way round.
package dispatch
