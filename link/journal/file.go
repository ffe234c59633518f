package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hawserio/hawser/kafka"
)

// The file is a head and entries, all of one size and each with its own CRC-32C, so that one that is damaged takes no other with it.
// docs/format/journal.md has the bytes.
const (
	magic     = "HWMJ"
	version   = 1
	entrySize = 72
	sumAt     = entrySize - 4
	// readMax bounds what is read of a file, from its end: no file of ours gets that long.
	readMax = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(b []byte, at int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

func sound(slot []byte) bool {
	return binary.BigEndian.Uint32(slot[sumAt:]) == crc32.Checksum(slot[:sumAt], castagnoli)
}

func head() []byte {
	b := make([]byte, sumAt, entrySize)
	copy(b, magic)
	binary.BigEndian.PutUint16(b[len(magic):], version)
	return seal(b, 0)
}

func (e Entry) append(b []byte) []byte {
	at := len(b)
	b = append(b, e.Partition.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Partition.Partition))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Epoch))
	for _, n := range [...]int64{int64(e.SourceEnd), int64(e.Applied), e.At, e.CaughtUp, e.Behind} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, 0, 0, 0, 0) // spare
	return seal(b, at)
}

// parse reads a slot; ok is false for one that is damaged, or says what cannot be.
func parse(slot []byte) (e Entry, ok bool) {
	copy(e.Partition.Topic[:], slot)
	e.Partition.Partition = int32(binary.BigEndian.Uint32(slot[16:]))
	e.Epoch = kafka.LeaderEpoch(binary.BigEndian.Uint32(slot[20:]))
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(slot[at:])) }
	e.SourceEnd, e.Applied, e.At, e.CaughtUp, e.Behind = kafka.Offset(number(24)), kafka.Offset(number(32)), number(40), number(48), number(56)
	ok = sound(slot) && e.Partition.Partition >= 0 && e.Epoch >= kafka.NoEpoch && e.SourceEnd >= 0 && e.Applied >= 0 && e.At > 0 &&
		e.CaughtUp >= 0 && e.Behind >= 0
	return e, ok
}

// read hands the entries of a file to take, in order, and counts those that are damaged. There may be no file.
func read(path string, take func(Entry)) (damaged int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := checkHead(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if over := info.Size() - readMax; over > 0 {
		if _, err := f.Seek(over/entrySize*entrySize, io.SeekStart); err != nil {
			return 0, err
		}
	}
	return scan(f, take)
}

// checkHead reads a file's head and says why the file is none of this version's.
func checkHead(in io.Reader) error {
	slot := make([]byte, entrySize)
	switch _, err := io.ReadFull(in, slot); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is shorter than a journal's head")
	case err != nil:
		return err
	case string(slot[:len(magic)]) != magic || !sound(slot):
		return errors.New("it does not begin as a journal does")
	}
	if v := binary.BigEndian.Uint16(slot[len(magic):]); v != version {
		return fmt.Errorf("it has version %d, this hawser writes %d: run the newer one to use it", v, version)
	}
	return nil
}

// scan reads entries to the end.
func scan(f io.Reader, take func(Entry)) (damaged int, err error) {
	slot := make([]byte, entrySize)
	for in := bufio.NewReaderSize(f, 256<<10); ; {
		switch _, err := io.ReadFull(in, slot); {
		case errors.Is(err, io.EOF):
			return damaged, nil
		case errors.Is(err, io.ErrUnexpectedEOF): // cut short by a crash
			return damaged + 1, nil
		case err != nil:
			return damaged, err
		}
		e, ok := parse(slot)
		if !ok {
			damaged++
			continue
		}
		take(e)
	}
}

// replace puts a file with these entries in the place of the one at path, in one step, and leaves it open.
func replace(path string, list []Entry) (_ *os.File, size int64, err error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	// What bufio could not write, Flush says.
	_, _ = out.Write(head())
	var slot []byte
	for _, e := range list {
		slot = e.append(slot[:0])
		_, _ = out.Write(slot)
	}
	if err := out.Flush(); err != nil {
		return nil, 0, err
	}
	if err := f.Sync(); err != nil {
		return nil, 0, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, 0, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, 0, err
	}
	err = dir.Sync()
	return f, int64(len(list)+1) * entrySize, errors.Join(err, dir.Close())
}
