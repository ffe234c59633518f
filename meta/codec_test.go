package meta

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/hawserio/hawser/kafka"
)

// fill sets every field of v to something, so that a field forgotten in a copy shows.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(*n) % 256)
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	default:
		panic("no rule for " + v.Type().String())
	}
}

// shared finds memory that two values have in common.
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		if a.Pointer() == b.Pointer() {
			return path
		}
		if a.Kind() == reflect.Pointer {
			return shared(a.Elem(), b.Elem(), path)
		}
		for i := range a.Len() {
			if at := shared(a.Index(i), b.Index(i), fmt.Sprint(path, "[", i, "]")); at != "" {
				return at
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if at := shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); at != "" {
				return at
			}
		}
	}
	return ""
}

func TestPartitionsCloneSharesNothing(t *testing.T) {
	var p Partitions
	n := int64(0)
	fill(reflect.ValueOf(&p).Elem(), &n)
	c := p.clone()
	if !reflect.DeepEqual(&p, c) {
		t.Fatalf("%+v became %+v", p, c)
	}
	if at := shared(reflect.ValueOf(p), reflect.ValueOf(*c), "Partitions"); at != "" {
		t.Fatalf("copy shares %s", at)
	}
}

func TestPartitionsAreStoredWhole(t *testing.T) {
	var p Partitions
	n := int64(0)
	fill(reflect.ValueOf(&p).Elem(), &n)
	value, err := wrap(1, &p)
	if err != nil {
		t.Fatal(err)
	}
	body, err := unwrap(value, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode[Partitions](body)
	if err != nil || !reflect.DeepEqual(*got, p) {
		t.Fatalf("%+v\ncame back as\n%+v\n%v", p, *got, err)
	}
}

func TestApplyDoesNotTouchTheImageItBeganWith(t *testing.T) {
	s := newSchema(nil)
	id := kafka.NewTopicID()
	put := func(d *draft, revision int64, name string) {
		t.Helper()
		value, err := wrap(1, &Topic{ID: id, Name: name})
		if err == nil {
			err = d.apply(record{idKey(kindTopic, id).path(), value, revision})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := newDraft(s, emptyImage())
	put(first, 5, "a")
	second := newDraft(s, &first.img)
	put(second, 6, "b")
	third := newDraft(s, &second.img)
	if err := third.apply(record{idKey(kindTopic, id).path(), nil, 7}); err != nil {
		t.Fatal(err)
	}
	k := idKey(kindTopic, id)
	if first.img.Topics[id].Name != "a" || first.img.rev(k) != 5 || first.img.Revision != 5 {
		t.Errorf("first image changed: %+v", first.img)
	}
	if second.img.Topics[id].Name != "b" || second.img.rev(k) != 6 {
		t.Errorf("second image changed: %+v", second.img)
	}
	if third.img.Topics[id] != nil || third.img.rev(k) != 0 || third.img.Revision != 7 {
		t.Errorf("third image: %+v", third.img)
	}
}

func FuzzUnpackMarks(f *testing.F) {
	f.Add(packMarks([]BatchMark{{Base: 1, Epoch: 2, CRC: 3}, {Base: 100, Epoch: 2, CRC: 4}}))
	f.Fuzz(func(t *testing.T, text string) {
		marks, err := unpackMarks(text)
		if err != nil {
			return
		}
		again, err := unpackMarks(packMarks(marks))
		if err != nil || !reflect.DeepEqual(again, marks) {
			t.Fatalf("%v came back as %v, %v", marks, again, err)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	f.Add([]byte(`{"v":1,"r":{"id":"x"}}`))
	f.Add([]byte(`{"v":,"r":}`))
	f.Fuzz(func(_ *testing.T, value []byte) {
		if body, err := unwrap(value, 1); err == nil {
			var p Partitions
			_ = json.Unmarshal(body, &p)
		}
	})
}
