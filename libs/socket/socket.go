// Package socket is how TCP connections are read and written without telling Go's scheduler: a call on a socket that does not block
// keeps a processor no longer than its bytes take to copy, so there is nothing to tell.
//
// What it saves is a thread. When all of a process is idle, the runtime's monitor sleeps, and the first system call that the
// scheduler hears of wakes it: four switches between threads, up to 80 µs of processor time, for a request that costs little
// more itself. A process that is busy anyway gains nothing and loses nothing.
package socket
