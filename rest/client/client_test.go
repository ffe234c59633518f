package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
	"github.com/hawserio/hawser/rest/resttest"
)

func TestURLForms(t *testing.T) {
	for given, want := range map[string]string{
		"http://h:8090":              "http://h:8090/kafka/v3",
		"http://h:8090/":             "http://h:8090/kafka/v3",
		"h:8090":                     "http://h:8090/kafka/v3",
		"https://h/v3":               "https://h/kafka/v3",
		"http://h:8090/kafka":        "http://h:8090/kafka/v3",
		"http://h:8090/kafka/v3/":    "http://h:8090/kafka/v3",
		" http://h:8090/proxied/v3 ": "http://h:8090/proxied/v3",
	} {
		c, err := client.New(given, client.Options{})
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		if c.URL() != want {
			t.Errorf("%q: got %s, want %s", given, c.URL(), want)
		}
	}
	for _, wrong := range []string{"", "ftp://h:1", "http://", "http://h:port"} {
		if _, err := client.New(wrong, client.Options{}); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

func TestC69_NamesAreEscaped(t *testing.T) {
	c := resttest.New(t)
	rest, err := client.New(c.Serve(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := "a:1"
	for _, name := range []string{"a.b", "configs", "_x"} {
		order := client.NewLink{Name: name, Body: api.CreateLinkRequest{Configs: []api.ConfigData{{Name: "bootstrap.servers", Value: &value}}}}
		if _, err := rest.CreateLink(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		if l, err := rest.Link(t.Context(), name); err != nil || l.LinkName != name {
			t.Errorf("%s: %v %v", name, l, err)
		}
	}
	for _, name := range []string{"a/b", "a?b", "a#b", "../topics", "."} {
		_, err := rest.Link(t.Context(), name)
		var e *client.Error
		if !errors.As(err, &e) || e.Status != 400 {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestEmptyNamesAreNotSent(t *testing.T) {
	c := resttest.New(t)
	rest, err := client.New(c.Serve(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := rest.Link(t.Context(), ""); err == nil {
		t.Errorf("got the link %+v", l)
	}
	if err := rest.DeleteTopic(t.Context(), ""); err == nil {
		t.Error("deleted the topic of no name")
	}
}

// TestAnOrderThatIsRedirectedIsNotTakenForDone has a server in between that sends all to another address, as from http to https.
func TestAnOrderThatIsRedirectedIsNotTakenForDone(t *testing.T) {
	door := resttest.New(t).Serve(t)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		http.Redirect(w, rq, door+rq.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer between.Close()
	rest, err := client.New(between.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.Topics(t.Context()); err != nil {
		t.Errorf("a question was not followed to where it is answered: %v", err)
	}
	_, err = rest.CreateTopic(t.Context(), api.CreateTopicRequest{TopicName: "t"})
	if e := (*client.Error)(nil); !errors.As(err, &e) || e.Status != 301 || !strings.Contains(e.Message, "it is to go to "+door) {
		t.Errorf("the order ended with %v", err)
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	for body, status := range map[string]int{"<html>": 502, "": 404, `{"data":5}`: 200, "{": 200} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		c, err := client.New(srv.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Links(t.Context())
		srv.Close()
		if err == nil || !strings.Contains(err.Error(), "/clusters") {
			t.Errorf("%d %q: got %v", status, body, err)
		}
		if _, err := c.Links(t.Context()); err == nil {
			t.Error("a closed server answered")
		} else if gone := (*client.Unreachable)(nil); !errors.As(err, &gone) {
			t.Errorf("closed server: %v", err)
		}
	}
}
