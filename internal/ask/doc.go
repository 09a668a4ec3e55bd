// Package ask asks Go triggers, which an application has registered under names: they
// may be on another node only, take their time, hang or panic. Nobody waits for one
// longer than it has to, and one schedule's trigger holds up no other schedule.
//
// An [Asker] takes the dispatcher's questions to a node that has the function, and
// answers those of other nodes. A [Query] has ticks of triggers that are on this node.
package ask
