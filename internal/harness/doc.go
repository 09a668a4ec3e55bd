// Package harness runs a cluster as its users do: each node a process, killed,
// frozen, cut off and started again at will, and asks afterwards what each of them
// knows.
//
// A node is the program itself, started again with a role ([Main]). It tells its
// parent through a pipe what happens, and takes orders from its standard input; it
// ends when that does, so no child outlives its parent. Between the nodes stand
// proxies, one for each ordered pair ([Net]), so that bytes can be held up in one
// direction alone, and a node can come back under another port.
package harness
