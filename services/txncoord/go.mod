module github.com/cauce-stream/cauce/services/txncoord

go 1.26.0

replace github.com/cauce-stream/cauce/libs => ../../libs

require github.com/cauce-stream/cauce/libs v0.0.0
