// Command kafkarest014 drives a cluster's REST door with the old release of the vendor's Go client that the
// Terraform provider pins: it knows only five mirror states, and has other types than the current one.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	rest "github.com/confluentinc/ccloud-sdk-go-v2/kafkarest/v3"
)

const usage = `usage: kafkarest014 URL CLUSTER SOURCE TOPIC
       kafkarest014 URL CLUSTER SOURCE TOPIC SOURCE-CLUSTER OTHER-TOPIC JAAS    as the Terraform provider
The environment's API_KEY and API_SECRET log in at the URL.`

func main() {
	if len(os.Args) != 5 && len(os.Args) != 8 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	cfg := rest.NewConfiguration()
	cfg.Servers = rest.ServerConfigurations{{URL: os.Args[1]}}
	cfg.HTTPClient = &http.Client{Timeout: 20 * time.Second}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if key := os.Getenv("API_KEY"); key != "" {
		ctx = context.WithValue(ctx, rest.ContextBasicAuth, rest.BasicAuth{UserName: key, Password: os.Getenv("API_SECRET")})
	}
	r := &run{ctx: ctx, api: rest.NewAPIClient(cfg), cluster: os.Args[2]}
	if err := r.all(os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("every step was understood")
}

func (r *run) all(args []string) error {
	if len(args) == 2 {
		return r.life(args[0], args[1])
	}
	p := &provider{r, map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": args[4]}}
	return p.life(args[0], args[2], [2]string{args[1], args[3]})
}

type run struct {
	ctx     context.Context
	api     *rest.APIClient
	cluster string
}

// done names the step that failed, with the server's words.
func done(step string, response *http.Response, err error) error {
	if response != nil {
		response.Body.Close()
	}
	if err == nil {
		return nil
	}
	var body rest.GenericOpenAPIError
	if errors.As(err, &body) {
		return fmt.Errorf("%s: %w: %s", step, err, body.Body())
	}
	return fmt.Errorf("%s: %w", step, err)
}

const link = "pinned"

func (r *run) life(source, topic string) error {
	for _, step := range []func() error{
		func() error { return r.create(source, topic) },
		func() error { return r.order("pause", topic, "PAUSED") },
		func() error { return r.order("resume", topic, "ACTIVE") },
		func() error { return r.order("promote", topic, "STOPPED") },
		func() error { return r.topics() },
		func() error { return r.remove(topic) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) create(source, topic string) error {
	l := r.api.ClusterLinkingV3Api
	value := *rest.NewNullableString(&source)
	response, err := l.CreateKafkaLink(r.ctx, r.cluster).LinkName(link).CreateLinkRequestData(rest.CreateLinkRequestData{Configs: &[]rest.ConfigData{{Name: "bootstrap.servers", Value: value}}}).Execute()
	if err := done("create the link", response, err); err != nil {
		return err
	}
	links, response, err := l.ListKafkaLinks(r.ctx, r.cluster).Execute()
	if err := done("list links", response, err); err != nil {
		return err
	}
	if len(links.Data) != 1 || links.Data[0].GetLinkName() != link {
		return fmt.Errorf("list links: got %+v", links.Data)
	}
	configs, response, err := l.ListKafkaLinkConfigs(r.ctx, r.cluster, link).Execute()
	if err := done("list the link's configs", response, err); err != nil {
		return err
	}
	if len(configs.Data) < 40 {
		return fmt.Errorf("the link has %d configs", len(configs.Data))
	}
	response, err = l.CreateKafkaMirrorTopic(r.ctx, r.cluster, link).CreateMirrorTopicRequestData(rest.CreateMirrorTopicRequestData{SourceTopicName: topic}).Execute()
	if err := done("create the mirror", response, err); err != nil {
		return err
	}
	return r.wait(topic, "ACTIVE")
}

func (r *run) wait(topic, status string) error {
	for {
		m, response, err := r.api.ClusterLinkingV3Api.ReadKafkaMirrorTopic(r.ctx, r.cluster, link, topic).Execute()
		if err := done("read the mirror", response, err); err != nil {
			return err
		}
		if string(m.MirrorStatus) == status {
			return nil
		}
		select {
		case <-r.ctx.Done():
			return fmt.Errorf("the mirror is %s, and not %s", m.MirrorStatus, status)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *run) order(verb, topic, status string) error {
	l := r.api.ClusterLinkingV3Api
	body := rest.AlterMirrorsRequestData{MirrorTopicNames: &[]string{topic}}
	var out rest.AlterMirrorStatusResponseDataList
	var response *http.Response
	var err error
	switch verb {
	case "pause":
		out, response, err = l.UpdateKafkaMirrorTopicsPause(r.ctx, r.cluster, link).AlterMirrorsRequestData(body).Execute()
	case "resume":
		out, response, err = l.UpdateKafkaMirrorTopicsResume(r.ctx, r.cluster, link).AlterMirrorsRequestData(body).Execute()
	case "promote":
		out, response, err = l.UpdateKafkaMirrorTopicsPromote(r.ctx, r.cluster, link).AlterMirrorsRequestData(body).Execute()
	}
	if err := done(verb, response, err); err != nil {
		return err
	}
	if len(out.Data) != 1 || out.Data[0].ErrorCode.Get() != nil {
		return fmt.Errorf("%s: got %+v", verb, out.Data)
	}
	return r.wait(topic, status)
}

func (r *run) topics() error {
	t := r.api.TopicV3Api
	partitions := int32(3)
	made, response, err := t.CreateKafkaTopic(r.ctx, r.cluster).CreateTopicRequestData(rest.CreateTopicRequestData{TopicName: "pinned-own", PartitionsCount: &partitions}).Execute()
	if err := done("create a topic", response, err); err != nil {
		return err
	}
	if made.PartitionsCount != 3 {
		return fmt.Errorf("create a topic: got %+v", made)
	}
	if _, response, err = t.ListKafkaTopics(r.ctx, r.cluster).Execute(); err != nil {
		return done("list topics", response, err)
	}
	configs, response, err := r.api.ConfigsV3Api.ListKafkaTopicConfigs(r.ctx, r.cluster, "pinned-own").Execute()
	if err := done("list the topic's configs", response, err); err != nil {
		return err
	}
	if len(configs.Data) < 20 {
		return fmt.Errorf("the topic has %d configs", len(configs.Data))
	}
	groups, response, err := r.api.ConsumerGroupV3Api.ListKafkaConsumerGroups(r.ctx, r.cluster).Execute()
	if err := done("list groups", response, err); err != nil {
		return err
	}
	_ = groups
	response, err = t.DeleteKafkaTopic(r.ctx, r.cluster, "pinned-own").Execute()
	return done("delete the topic", response, err)
}

func (r *run) remove(topic string) error {
	response, err := r.api.TopicV3Api.DeleteKafkaTopic(r.ctx, r.cluster, topic).Execute()
	if err := done("delete the mirror's topic", response, err); err != nil {
		return err
	}
	// The provider polls until both are gone, by the HTTP status alone.
	if _, response, err = r.api.ClusterLinkingV3Api.ReadKafkaMirrorTopic(r.ctx, r.cluster, link, topic).Execute(); err == nil || response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("a deleted mirror is answered with %v", response)
	}
	response.Body.Close()
	response, err = r.api.ClusterLinkingV3Api.DeleteKafkaLink(r.ctx, r.cluster, link).Execute()
	if err := done("delete the link", response, err); err != nil {
		return err
	}
	if _, response, err = r.api.ClusterLinkingV3Api.GetKafkaLink(r.ctx, r.cluster, link).Execute(); err == nil || response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("a deleted link is answered with %v", response)
	}
	return response.Body.Close()
}
