package op

// Client is who sent a request.
type Client struct {
	// ID is the client's own name; it may be empty.
	ID string
	// Host is the address the request came from, as Apache Kafka shows it: "/" and the IP.
	Host string
	// Fresh is a UUID that was never given to anyone, for the member id that the request may need (KIP-394): randomness is not
	// the shard's.
	Fresh string
}
