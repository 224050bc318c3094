// Package control is how a data plane is driven: the server of the control API,
// the rules of who may write and when, and the last-known-good store.
//
// It owns which snapshot is active, its generation, the fencing term, the files
// in the state directory and the log of events. It knows nothing of sockets
// that carry traffic, of clusters or of requests: what it decides is carried
// out by a Node.
//
// An apply goes through these steps, and stops at the first that refuses:
//
//	fence     a term lower than the highest seen is refused; a higher one is stored
//	compare   the base digest, if one is given, must be the active one
//	compile   every violation is listed
//	admit     equal content changes nothing; a snapshot that shrinks too much is
//	          refused; what was admitted before and is not active is superseded
//	prepare   the node binds, connects and warms, and disturbs nothing
//	persist   the generation is on disk, file and directory synced
//	commit    one pointer swap; from here on it is ACTIVE
package control
