package tmp
import (
 _ "github.com/twmb/franz-go/pkg/kerr"
 _ "github.com/twmb/franz-go/pkg/kmsg"
 _ "github.com/prometheus/client_golang/prometheus"
 _ "go.uber.org/zap"
 _ "golang.org/x/sys/unix"
)
