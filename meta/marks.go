package meta

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/hawserio/hawser/kafka"
)

// storedStop is a StopPoint as it is stored: 64 marks of each of 10,000
// partitions are 30 MB as JSON, and a fifth of it packed.
type storedStop struct {
	stopFields
	LastBatches string `json:"last_batches,omitempty"`
}

// stopFields is StopPoint without its methods.
type stopFields StopPoint

// MarshalJSON packs the marks.
func (s StopPoint) MarshalJSON() ([]byte, error) {
	packed := storedStop{stopFields: stopFields(s), LastBatches: packMarks(s.LastBatches)}
	packed.stopFields.LastBatches = nil
	return json.Marshal(packed)
}

// UnmarshalJSON unpacks the marks.
func (s *StopPoint) UnmarshalJSON(data []byte) error {
	var packed storedStop
	if err := json.Unmarshal(data, &packed); err != nil {
		return err
	}
	marks, err := unpackMarks(packed.LastBatches)
	if err != nil {
		return err
	}
	*s = StopPoint(packed.stopFields)
	s.LastBatches = marks
	return nil
}

// packMarks writes each mark as its differences from the one before (zigzag
// varints) and its CRC (4 bytes, big endian), all as base64.
func packMarks(marks []BatchMark) string {
	if len(marks) == 0 {
		return ""
	}
	raw := make([]byte, 0, 8*len(marks))
	var last BatchMark
	for _, m := range marks {
		raw = binary.AppendVarint(raw, int64(m.Base-last.Base))
		raw = binary.AppendVarint(raw, int64(m.Epoch-last.Epoch))
		raw = binary.BigEndian.AppendUint32(raw, m.CRC)
		last = m
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

var errMarks = errors.New("last batches of a stop point are damaged")

func unpackMarks(text string) ([]BatchMark, error) {
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errMarks
	}
	var marks []BatchMark
	var last BatchMark
	for len(raw) > 0 {
		base, n := binary.Varint(raw)
		if n <= 0 {
			return nil, errMarks
		}
		epoch, k := binary.Varint(raw[n:])
		if k <= 0 || len(raw) < n+k+4 {
			return nil, errMarks
		}
		last.Base += kafka.Offset(base)
		last.Epoch += kafka.LeaderEpoch(epoch)
		last.CRC = binary.BigEndian.Uint32(raw[n+k:])
		raw = raw[n+k+4:]
		marks = append(marks, last)
	}
	return marks, nil
}

// trimMarks keeps the newest n marks at most of each stop point.
func (p *Partitions) trimMarks(n int) {
	for i := range p.List {
		if s := p.List[i].Stop; s != nil && len(s.LastBatches) > n {
			s.LastBatches = s.LastBatches[len(s.LastBatches)-n:]
		}
	}
}
