package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// ErrTooLarge says that a batch's records are larger than the reader allows.
var ErrTooLarge = errors.New("decompressed records are too large")

// xerialMagic begins the snappy framing of Java clients; Go clients send raw blocks.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// Decompress is the records as plain bytes, at most maxBytes of them; with
// CodecNone it is part of b.
func (b Batch) Decompress(maxBytes int) ([]byte, error) {
	plain, err := decompress(b.Codec(), b.Payload(), maxBytes)
	if err != nil {
		return nil, fmt.Errorf("decompress record batch at offset %d: %w", b.BaseOffset(), err)
	}
	return plain, nil
}

func decompress(codec Codec, payload []byte, maxBytes int) ([]byte, error) {
	switch codec {
	case CodecNone:
		return payload, nil
	case CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(payload))
		if err != nil {
			return nil, err
		}
		return readCapped(r, maxBytes)
	case CodecSnappy:
		if bytes.HasPrefix(payload, xerialMagic) {
			return unxerial(payload, maxBytes)
		}
		return unsnap(nil, payload, maxBytes)
	case CodecLZ4:
		return readCapped(lz4.NewReader(bytes.NewReader(payload)), maxBytes)
	case CodecZstd:
		return unzstd(payload, maxBytes)
	}
	return nil, fmt.Errorf("unknown codec %d", codec)
}

func readCapped(r io.Reader, maxBytes int) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(r, int64(maxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxBytes {
		return nil, ErrTooLarge
	}
	return plain, nil
}

// zstdDecoders decode in memory, at most so many bytes and no larger window. A writer that does not
// know the length when it begins names a window for the worst case: 128 MiB at Java's highest level.
var zstdDecoders = []zstdDecoder{newZstdDecoder(1 << 20), newZstdDecoder(8 << 20), newZstdDecoder(32 << 20), newZstdDecoder(128 << 20),
	newZstdDecoder(512 << 20)}

type zstdDecoder struct {
	limit int
	*zstd.Decoder
}

func newZstdDecoder(limit int) zstdDecoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(limit)))
	if err != nil {
		panic("BUG: the options of a zstd decoder are refused: " + err.Error())
	}
	return zstdDecoder{limit, d}
}

// unzstd takes the smallest decoder that may do, so that a bomb bursts early, and a
// larger one only for a larger window. Memory is taken as the output grows.
func unzstd(payload []byte, maxBytes int) ([]byte, error) {
	for i, d := range zstdDecoders {
		last := i == len(zstdDecoders)-1
		if d.limit < maxBytes && !last {
			continue
		}
		plain, err := d.DecodeAll(payload, nil)
		switch {
		case errors.Is(err, zstd.ErrWindowSizeExceeded) && !last:
			continue
		case errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(plain) > maxBytes:
			return nil, ErrTooLarge
		}
		return plain, err
	}
	panic("BUG: there is no zstd decoder")
}

// snappyRatio is more than any snappy block can grow by: its densest element makes 64 bytes of 3.
const snappyRatio = 24

// unsnap appends a raw snappy block to plain.
func unsnap(plain, block []byte, maxBytes int) ([]byte, error) {
	size, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if size > maxBytes-len(plain) {
		return nil, ErrTooLarge
	}
	if size > snappyRatio*len(block) { // before a liar has it allocated
		return nil, snappy.ErrCorrupt
	}
	part, err := snappy.Decode(nil, block)
	return append(plain, part...), err
}

// xerialHead is the framing's header: the magic, its version and the oldest one that reads it, an int32 each.
const xerialHead = 16

// unxerial reads Java's framing: a header, then blocks with an int32 size each. In a block's place there may be a header
// again, of a stream that was appended. Version 0 was never released; Java's reader refuses it, too.
func unxerial(payload []byte, maxBytes int) ([]byte, error) {
	rest, plain := payload, []byte{}
	for len(rest) > 0 {
		if bytes.HasPrefix(rest, xerialMagic) {
			if len(rest) < xerialHead {
				return nil, io.ErrUnexpectedEOF
			}
			if version := int32(binary.BigEndian.Uint32(rest[len(xerialMagic):])); version < 1 {
				return nil, fmt.Errorf("snappy framing of version %d", version)
			}
			rest = rest[xerialHead:]
			continue
		}
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if plain, err = unsnap(plain, rest[:size], maxBytes); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	return plain, nil
}

// zstdEncoder states the length in the frame, so that readers know what they need.
var zstdEncoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		panic("BUG: the defaults of a zstd encoder are refused: " + err.Error())
	}
	return e
}()

// Compress encodes plain records for a batch that we write ourselves.
func Compress(codec Codec, plain []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case CodecNone:
		return plain, nil
	case CodecGzip:
		w = gzip.NewWriter(&out)
	case CodecSnappy:
		return snappy.Encode(nil, plain), nil
	case CodecLZ4:
		w = lz4.NewWriter(&out)
	case CodecZstd:
		return zstdEncoder.EncodeAll(plain, nil), nil
	default:
		return nil, fmt.Errorf("unknown codec %d", codec)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
