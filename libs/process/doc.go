// Package process is what the main of every Cauce program shares: flags and
// configuration, signals, limits of the operating system, memory policy,
// telemetry and the admin server around one run function.
package process
