package peer

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// Rule R9: what freezes, hands over, pledges or reads stop points takes ALTER on the topic and on the cluster.
func TestR9_WhatChangesATopicTakesAlterOnItAndOnTheCluster(t *testing.T) {
	reads := []Key{Hello, DescribeMirrors, Chain, DescribeACLs, DescribeKin}
	for i, row := range Rows() {
		if i > 0 && rows[i-1].Key >= row.Key {
			t.Errorf("%s is out of order", row.Name)
		}
		if kmsg.RequestForKey(int16(row.Key)) != nil || row.Key < 20000 {
			t.Errorf("%s: key %d is, or may become, Kafka's", row.Name, row.Key)
		}
		if row.Name == "" || row.Doc == "" || row.Min != 0 || row.Max < row.Min {
			t.Errorf("row %+v is not complete", row)
		}
		switch {
		case slices.Contains(reads, row.Key):
			if row.Cluster != kmsg.ACLOperationDescribe && row.Topic != kmsg.ACLOperationDescribe {
				t.Errorf("%s needs %v on the cluster and %v on topics, want DESCRIBE", row.Name, row.Cluster, row.Topic)
			}
		case row.Cluster != kmsg.ACLOperationAlter || row.Half != WithHalf:
			t.Errorf("%s needs %v on the cluster, half %v; want ALTER and a half of the link", row.Name, row.Cluster, row.Half)
		case row.Key != Connect && row.Topic != kmsg.ACLOperationAlter:
			t.Errorf("%s needs %v on the topic, want ALTER", row.Name, row.Topic)
		}
	}
	if _, ok := RowOf(31199); ok || Key(1).Name() != "unknown" {
		t.Error("a key without a row has one")
	}
}

func request() *Request {
	return &Request{
		Ask:  Ask{Key: Freeze, Topics: []string{"orders", "clicks"}, Body: []byte("body")},
		Link: kafka.TopicID{1, 2, 15: 9}, Caller: "MkU3OEVBNTcwNTJENDM2Qg", Callee: "other",
	}
}

func TestEnvelopesComeThroughWhole(t *testing.T) {
	want := request()
	got := NewRequest(Freeze)
	if err := got.ReadFrom(want.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("read %+v, %v; want %+v", got, err, want)
	}
	if kind := want.ResponseKind(); kind.Key() != int16(Freeze) || kind.RequestKind().Key() != int16(Freeze) {
		t.Fatalf("the answer's key is %d", kind.Key())
	}
	sent := &Answer{Code: kafka.InvalidRequest, Words: strings.Repeat("x", 5000), Cluster: "c", Body: []byte{1}}
	var back Answer
	if err := back.ReadFrom(sent.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if len(back.Words) != wordsMax || back.Cluster != "c" || !bytes.Equal(back.Body, []byte{1}) || kafka.CodeOf(back.Err()) != kafka.InvalidRequest {
		t.Fatalf("read %+v", back)
	}
	if err := (&Answer{}).Err(); err != nil {
		t.Fatalf("no refusal is %v", err)
	}
}

func TestEnvelopesAreBounded(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"body":    func(r *Request) { r.Body = make([]byte, BodyMax+1) },
		"topics":  func(r *Request) { r.Topics = make([]string, TopicsMax+1) },
		"name":    func(r *Request) { r.Topics[1] = strings.Repeat("x", 250) },
		"caller":  func(r *Request) { r.Caller = strings.Repeat("x", 201) },
		"callee":  func(r *Request) { r.Callee = strings.Repeat("x", 201) },
		"nothing": func(*Request) {},
	} {
		r := request()
		change(r)
		checked, read := r.Check(), NewRequest(Freeze).ReadFrom(r.AppendTo(nil))
		if name == "nothing" {
			if checked != nil || read != nil {
				t.Errorf("a good request is refused: %v, %v", checked, read)
			}
			continue
		}
		if checked == nil || !errors.Is(read, ErrMalformed) {
			t.Errorf("%s over its bound: check %v, read %v", name, checked, read)
		}
	}
}

func TestEveryCutMessageIsRefused(t *testing.T) {
	half := LinkHalf{Name: "l", ID: kafka.TopicID{3}, Mode: "BIDIRECTIONAL", Connection: "INBOUND", Prefix: "p", Remote: "r", State: "ACTIVE", Groups: "{}"}
	self := Self{Incarnation: "i", ProducerPrefix: 7, Version: "v1"}
	ask := HelloRequest{Self: self, Half: half}
	answer := HelloAnswer{Self: self, Half: &half}
	if got, err := DecodeHelloRequest(ask.Encode()); err != nil || got != ask {
		t.Fatalf("read %+v, %v", got, err)
	}
	if got, err := DecodeHelloAnswer(answer.Encode()); err != nil || !reflect.DeepEqual(got, answer) {
		t.Fatalf("read %+v, %v", got, err)
	}
	if got, err := DecodeHelloAnswer((HelloAnswer{Self: self}).Encode()); err != nil || got.Half != nil {
		t.Fatalf("read %+v, %v", got, err)
	}
	chain := ChainAnswer{Hops: []Hop{{"c", "t"}, {"d", "u"}}, Open: "why"}
	if got, err := DecodeChainAnswer(chain.Encode()); err != nil || !reflect.DeepEqual(got, chain) {
		t.Fatalf("read %+v, %v", got, err)
	}
	page := MirrorsAnswer{Mirrors: []Mirrored{{"m", "s", kafka.TopicID{4}}, {"n", "t", kafka.TopicID{}}}, More: true}
	if got, err := DecodeMirrorsAnswer(page.Encode()); err != nil || !reflect.DeepEqual(got, page) {
		t.Fatalf("read %+v, %v", got, err)
	}
	acls := ACLsAnswer{Keys: []kafka.TopicID{{5}, {6, 15: 1}}}
	if got, err := DecodeACLsAnswer(acls.Encode()); err != nil || !reflect.DeepEqual(got, acls) {
		t.Fatalf("read %+v, %v", got, err)
	}
	kin := KinAnswer{Topic: kafka.TopicID{7}, Kin: []Kin{{"c", kafka.TopicID{8}}, {"d", kafka.TopicID{9}}}}
	if got, err := DecodeKinAnswer(kin.Encode()); err != nil || !reflect.DeepEqual(got, kin) {
		t.Fatalf("read %+v, %v", got, err)
	}
	if _, err := DecodeChainRequest(ChainRequest{Depth: ChainMax + 1}.Encode()); !errors.Is(err, ErrMalformed) {
		t.Errorf("a chain that is too deep: %v", err)
	}
	offer, want := ConnectRequest{Phase: Failed, WaitMs: 60_000, Token: 7, Code: "c", Words: "w"}, ConnectAnswer{Wanted: true, Address: "a:1", Token: 8}
	if got, err := DecodeConnectRequest(offer.Encode()); err != nil || got != offer {
		t.Fatalf("read %+v, %v", got, err)
	}
	if got, err := DecodeConnectAnswer(want.Encode()); err != nil || got != want {
		t.Fatalf("read %+v, %v", got, err)
	}
	for _, bad := range []ConnectRequest{{Phase: 3}, {WaitMs: 60_001}, {WaitMs: -1}, {Phase: -1}} {
		if _, err := DecodeConnectRequest(bad.Encode()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for name, message := range map[string]struct {
		bytes []byte
		read  func([]byte) error
	}{
		"depth":   {ChainRequest{Depth: ChainMax}.Encode(), func(b []byte) error { _, err := DecodeChainRequest(b); return err }},
		"chain":   {chain.Encode(), func(b []byte) error { _, err := DecodeChainAnswer(b); return err }},
		"after":   {MirrorsRequest{"m"}.Encode(), func(b []byte) error { _, err := DecodeMirrorsRequest(b); return err }},
		"page":    {page.Encode(), func(b []byte) error { _, err := DecodeMirrorsAnswer(b); return err }},
		"acls":    {acls.Encode(), func(b []byte) error { _, err := DecodeACLsAnswer(b); return err }},
		"kin":     {kin.Encode(), func(b []byte) error { _, err := DecodeKinAnswer(b); return err }},
		"connect": {offer.Encode(), func(b []byte) error { _, err := DecodeConnectRequest(b); return err }},
		"wanted":  {want.Encode(), func(b []byte) error { _, err := DecodeConnectAnswer(b); return err }},
		"request": {request().AppendTo(nil), func(b []byte) error { return NewRequest(Freeze).ReadFrom(b) }},
		"answer":  {(&Answer{Cluster: "c", Body: []byte("b")}).AppendTo(nil), func(b []byte) error { return new(Answer).ReadFrom(b) }},
		"hello":   {ask.Encode(), func(b []byte) error { _, err := DecodeHelloRequest(b); return err }},
		"told":    {answer.Encode(), func(b []byte) error { _, err := DecodeHelloAnswer(b); return err }},
	} {
		for n := range message.bytes {
			if err := message.read(message.bytes[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, n, len(message.bytes), err)
			}
		}
		if err := message.read(append(slices.Clone(message.bytes), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
}

func TestACountIsNotBelieved(t *testing.T) {
	in := Reader{Rest: AppendInt32(nil, 1_000_000)}
	if n := in.Count(2_000_000, 8); n != 0 || !errors.Is(in.Err(), ErrMalformed) {
		t.Fatalf("%d items in no bytes, %v", n, in.Err())
	}
	in = Reader{Rest: append(AppendInt32(nil, 2), make([]byte, 16)...)}
	if n := in.Count(2, 8); n != 2 || in.Err() != nil {
		t.Fatalf("%d items, %v", n, in.Err())
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(request().AppendTo(nil))
	f.Add((&Answer{Words: "no", Cluster: "c", Body: []byte("b")}).AppendTo(nil))
	f.Add(HelloRequest{}.Encode())
	f.Add(ConnectRequest{}.Encode())
	f.Add(ConnectAnswer{}.Encode())
	f.Add(HelloAnswer{Half: &LinkHalf{}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := NewRequest(Pledge); r.ReadFrom(b) == nil {
			if r.Check() != nil || !bytes.Equal(r.AppendTo(nil), b) {
				t.Errorf("request %+v does not come back", r)
			}
		}
		if a := new(Answer); a.ReadFrom(b) == nil && !bytes.Equal(a.AppendTo(nil), b) {
			t.Errorf("answer %+v does not come back", a)
		}
		if m, err := DecodeHelloRequest(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeChainAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeMirrorsAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeACLsAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeKinAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeConnectRequest(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeConnectAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
		if m, err := DecodeHelloAnswer(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%+v does not come back", m)
		}
	})
}
