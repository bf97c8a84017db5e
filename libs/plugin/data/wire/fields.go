package wire

import "google.golang.org/protobuf/encoding/protowire"

// The numbers of data.proto's fields.
const (
	batchSchemas protowire.Number = 1
	batchTopics  protowire.Number = 2
	batchRecords protowire.Number = 3

	tableSchemas protowire.Number = 1

	schemaType       protowire.Number = 1
	schemaOptional   protowire.Number = 2
	schemaName       protowire.Number = 3
	schemaVersion    protowire.Number = 4
	schemaDoc        protowire.Number = 5
	schemaParameters protowire.Number = 6
	schemaDefault    protowire.Number = 7
	schemaFields     protowire.Number = 8
	schemaKey        protowire.Number = 9
	schemaValue      protowire.Number = 10

	parameterName  protowire.Number = 1
	parameterValue protowire.Number = 2

	fieldName   protowire.Number = 1
	fieldSchema protowire.Number = 2

	recordTopic       protowire.Number = 1
	recordPartition   protowire.Number = 2
	recordOffset      protowire.Number = 3
	recordTimestamp   protowire.Number = 4
	recordKeySchema   protowire.Number = 5
	recordKey         protowire.Number = 6
	recordValueSchema protowire.Number = 7
	recordValue       protowire.Number = 8
	recordHeaders     protowire.Number = 9

	headerName   protowire.Number = 1
	headerSchema protowire.Number = 2
	headerValue  protowire.Number = 3

	valueInt8    protowire.Number = 1
	valueInt16   protowire.Number = 2
	valueInt32   protowire.Number = 3
	valueInt64   protowire.Number = 4
	valueFloat32 protowire.Number = 5
	valueFloat64 protowire.Number = 6
	valueBoolean protowire.Number = 7
	valueString  protowire.Number = 8
	valueBytes   protowire.Number = 9
	valueArray   protowire.Number = 10
	valueMap     protowire.Number = 11
	valueStruct  protowire.Number = 12
	valueDecimal protowire.Number = 13
	valueTime    protowire.Number = 14

	arrayElements protowire.Number = 1

	mapEntries protowire.Number = 1

	structSchema protowire.Number = 1
	structValues protowire.Number = 2

	decimalUnscaled protowire.Number = 1
	decimalScale    protowire.Number = 2
)
