package tmp
import (
 _ "github.com/twmb/franz-go/pkg/kgo"
 _ "github.com/twmb/franz-go/pkg/kadm"
 _ "github.com/twmb/franz-go/pkg/kmsg"
 _ "github.com/IBM/sarama"
 _ "github.com/segmentio/kafka-go"
 _ "golang.org/x/tools/go/packages"
)
