module github.com/cauce-stream/cauce/deploy

go 1.26.0
