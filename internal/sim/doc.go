// Package sim knows how a whole cluster behaves when everything around it fails:
// it runs nodes in one testing/synctest bubble, on a network, on disks and by
// clocks of its own making, and checks what they did.
//
// The network carries streams, and does to them what networks do: bytes take time
// and are held up in one direction alone, connections break, and some die for their
// sender alone, so that what was sent arrives, be it seconds later, and its answer
// does not. As whoever has sent it asks again over another connection, raft's
// messages and forwarded calls come twice, and out of order, and to one who leads no
// more. Disks fail, fill up, hang, and tear what was written when the power goes;
// clocks step and drift; nodes are killed, frozen, restarted, cut off, or away for so
// long that only a copy of the leader's state brings them back. Nodes leave, are taken
// out, or lose their disks, and come back as ones that have to be let in.
//
// Not modelled: bytes that are damaged or lost within a connection, which TCP and the
// entries' checksums are for; disks that read what was not written, see
// internal/crashtest; several binaries, see internal/harness.
//
// [Run] is one simulation. Its seed fixes the faults and the load; the rest is up
// to Go's scheduler, so a seed that fails once is run again many times. A
// simulation has two phases: in the first anything may fail that leaves a
// majority, in the second the faults stop and the cluster must come to rest: one
// leader, all that is due started, a quick shutdown.
//
// What happened is a [History]: the calls with their answers, what handlers did,
// and the log as it was committed. The checkers are pure functions over it. They
// trust nothing that the nodes say of themselves but the log's bytes: the history
// is replayed, and each promise is checked by a naive model that knows no indexes,
// timers or batches. A simulation in which nothing happened fails too: without calls,
// acknowledgements, ticks, or the faults and what they are to bring about.
package sim
