module github.com/cauce-stream/cauce/cmd/cauce

go 1.26.0

replace github.com/cauce-stream/cauce/libs => ../../libs

replace github.com/cauce-stream/cauce/services/controller => ../../services/controller

replace github.com/cauce-stream/cauce/services/broker => ../../services/broker

replace github.com/cauce-stream/cauce/services/groupcoord => ../../services/groupcoord

replace github.com/cauce-stream/cauce/services/txncoord => ../../services/txncoord

replace github.com/cauce-stream/cauce/services/connect => ../../services/connect

require (
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.1.0
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)
