package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	official "github.com/confluentinc/ccloud-sdk-go-v2/kafkarest/v3"

	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

// The vendor's own Go client against the door: what it cannot decode, its users cannot use.

func officialClient(t *testing.T, c *resttest.Cluster) (context.Context, official.ClusterLinkingV3Api) {
	t.Helper()
	cfg := official.NewConfiguration()
	cfg.Servers = official.ServerConfigurations{{URL: c.Serve(t)}}
	cfg.HTTPClient = &http.Client{Timeout: 10 * time.Second}
	ctx := context.WithValue(t.Context(), official.ContextBasicAuth, official.BasicAuth{UserName: "key", Password: "secret"})
	return ctx, official.NewAPIClient(cfg).ClusterLinkingV3Api
}

func ptr[T any](v T) *T { return &v }

func closed(t *testing.T, response *http.Response, err error) {
	t.Helper()
	if response != nil {
		response.Body.Close()
	}
	if err != nil {
		t.Fatal(err, bodyOf(err))
	}
}

func bodyOf(err error) string {
	var e official.GenericOpenAPIError
	if errors.As(err, &e) {
		return string(e.Body())
	}
	return ""
}

func TestC66_OfficialClientDecodesLinks(t *testing.T) {
	c := resttest.New(t)
	ctx, oc := officialClient(t, c)
	empty, response, err := oc.ListKafkaLinks(ctx, resttest.ClusterID).Execute()
	closed(t, response, err)
	if len(empty.Data) != 0 || empty.Kind != "KafkaLinkDataList" {
		t.Errorf("got %+v", empty)
	}
	for _, state := range api.LinkStates {
		c.Links.Put(link.Info{Name: "l-" + state, State: state, Err: "AUTHENTICATION_ERROR", ErrText: "Check the password.", RemoteClusterID: "src",
			Topics: []string{"a"}, Categories: map[string]int32{"IN_ERROR": 3}, Tasks: []link.Task{{Name: "AclSync", State: "IN_ERROR", Errors: []link.Coded{{Code: "SECURITY_DISABLED_ERROR", Text: "No authorizer."}}}}})
	}
	links, response, err := oc.ListKafkaLinks(ctx, resttest.ClusterID).Execute()
	closed(t, response, err)
	if len(links.Data) != len(api.LinkStates) {
		t.Fatalf("got %d links", len(links.Data))
	}
	for i, state := range api.LinkStates {
		l, response, err := oc.GetKafkaLink(ctx, resttest.ClusterID, "l-"+state).IncludeTasks(true).Execute()
		closed(t, response, err)
		if l.GetLinkState() != state || links.Data[i].GetLinkState() != state || l.GetSourceClusterId() != "src" || l.GetLinkError() != "AUTHENTICATION_ERROR" ||
			l.GetLinkErrorMessage() != "Check the password." || !slices.Equal(l.TopicNames, []string{"a"}) || len(l.ClusterLinkId) != 22 || len(l.GetLinkId()) != 36 {
			t.Errorf("%s: got %+v", state, l)
		}
		if len(l.Tasks) != 1 || l.Tasks[0].Errors[0].ErrorCode != "SECURITY_DISABLED_ERROR" || l.CategoryCounts[0].Count != 3 {
			t.Errorf("%s: tasks %+v, counts %+v", state, l.Tasks, l.CategoryCounts)
		}
	}
}

func TestOfficialClientDecodesMirrorsInEachState(t *testing.T) {
	c := resttest.New(t)
	ctx, oc := officialClient(t, c)
	c.Links.Put(link.Info{Name: "l", State: "ACTIVE"})
	for _, status := range api.MirrorStatuses {
		c.Links.PutMirror(link.MirrorInfo{Link: "l", Topic: "t-" + status, SourceTopic: "s", Partitions: 2, Status: status, StateMs: 1_700_000_000_000, Err: "SOURCE_TOPIC_ID_CHANGED", ErrText: "Why.",
			Lags:             []link.Lag{{Partition: 1, Records: 5, LastSourceFetch: 9, State: "IN_ERROR", Err: "x", Lost: 2}, {Partition: 0, LastSourceFetch: -1}},
			TransitionErrors: []link.Coded{{Code: "REMOTE_MIRROR_NOT_FOUND_ERROR", Text: "Not there."}}})
	}
	all, response, err := oc.ListKafkaMirrorTopics(ctx, resttest.ClusterID).Execute()
	closed(t, response, err)
	if len(all.Data) != len(api.MirrorStatuses) {
		t.Fatalf("got %d mirrors", len(all.Data))
	}
	for _, status := range api.MirrorStatuses {
		some, response, err := oc.ListKafkaMirrorTopicsUnderLink(ctx, resttest.ClusterID, "l").MirrorStatus(official.MirrorTopicStatus(status)).Execute()
		closed(t, response, err)
		if len(some.Data) != 1 || string(some.Data[0].MirrorStatus) != status {
			t.Errorf("%s: the filter gave %+v", status, some.Data)
		}
		m, response, err := oc.ReadKafkaMirrorTopic(ctx, resttest.ClusterID, "l", "t-"+status).IncludeStateTransitionErrors(true).Execute()
		closed(t, response, err)
		if string(m.MirrorStatus) != status || m.GetMirrorTopicError() != "SOURCE_TOPIC_ID_CHANGED" || m.NumPartitions != 2 || m.MirrorLags.Items[1].Lag != 5 ||
			m.MirrorLags.Items[0].LastSourceFetchOffset != -1 || (*m.MirrorStateTransitionErrors)[0].ErrorCode != "REMOTE_MIRROR_NOT_FOUND_ERROR" {
			t.Errorf("%s: got %+v", status, m)
		}
	}
}

func TestOfficialClientRunsALinksLife(t *testing.T) {
	c := resttest.New(t)
	ctx, oc := officialClient(t, c)
	boot := *official.NewNullableString(ptr("SASL_SSL://a:9092"))
	response, err := oc.CreateKafkaLink(ctx, resttest.ClusterID).LinkName("l").ValidateLink(false).CreateLinkRequestData(official.CreateLinkRequestData{
		SourceClusterId: ptr("src"), Configs: &[]official.ConfigData{{Name: "bootstrap.servers", Value: boot}}}).Execute()
	closed(t, response, err)
	response, err = oc.CreateKafkaMirrorTopic(ctx, resttest.ClusterID, "l").CreateMirrorTopicRequestData(official.CreateMirrorTopicRequestData{
		SourceTopicName: "orders", ReplicationFactor: ptr(int32(3)), Configs: &[]official.ConfigData{}}).Execute()
	closed(t, response, err)

	configs, response, err := oc.ListKafkaLinkConfigs(ctx, resttest.ClusterID, "l").Execute()
	closed(t, response, err)
	i := slices.IndexFunc(configs.Data, func(d official.ListLinkConfigsResponseData) bool { return d.Name == "sasl.jaas.config" })
	if i < 0 || !configs.Data[i].IsSensitive || configs.Data[i].Value != "" {
		t.Errorf("sasl.jaas.config: %+v", configs.Data)
	}
	response, err = oc.UpdateKafkaLinkConfigBatch(ctx, resttest.ClusterID, "l").AlterConfigBatchRequestData(official.AlterConfigBatchRequestData{
		Data: []official.AlterConfigBatchRequestDataData{{Name: "acl.filters", Value: *official.NewNullableString(ptr("x"))}}}).Execute()
	closed(t, response, err)
	one, response, err := oc.GetKafkaLinkConfigs(ctx, resttest.ClusterID, "l", "acl.filters").Execute()
	closed(t, response, err)
	if one.Value != "x" || one.Source != "DYNAMIC_CLUSTER_LINK_CONFIG" || one.IsDefault {
		t.Errorf("got %+v", one)
	}
	response, err = oc.UpdateKafkaLinkConfig(ctx, resttest.ClusterID, "l", "acl.filters").UpdateLinkConfigRequestData(official.UpdateLinkConfigRequestData{Value: "y"}).Execute()
	closed(t, response, err)
	response, err = oc.DeleteKafkaLinkConfig(ctx, resttest.ClusterID, "l", "acl.filters").Execute()
	closed(t, response, err)

	promote := func() official.AlterMirrorStatusResponseData {
		out, response, err := oc.UpdateKafkaMirrorTopicsPromote(ctx, resttest.ClusterID, "l").AlterMirrorsRequestData(official.AlterMirrorsRequestData{MirrorTopicNames: &[]string{"orders"}}).Execute()
		closed(t, response, err)
		if len(out.Data) != 1 {
			t.Fatalf("got %+v", out)
		}
		return out.Data[0]
	}
	if first := promote(); first.ErrorCode.Get() != nil || first.ErrorMessage.Get() != nil || len(first.MirrorLags.Items) != 2 {
		t.Errorf("first promote: %+v", first)
	}
	if again := promote(); *again.ErrorCode.Get() != 400 || *again.ErrorMessage.Get() == "" {
		t.Errorf("second promote: %+v", again)
	}
	cut, response, err := oc.UpdateKafkaMirrorTopicsTruncateAndRestoreMirror(ctx, resttest.ClusterID, "l").IncludePartitionLevelTruncationData(true).
		AlterMirrorsRequestData(official.AlterMirrorsRequestData{MirrorTopicNamePattern: ptr(".*")}).Execute()
	closed(t, response, err)
	if *cut.Data[0].MessagesTruncated.Get() != 7 || cut.Data[0].PartitionLevelTruncationData.Items[1].OffsetTruncatedTo != 90 {
		t.Errorf("got %+v", cut)
	}
	response, err = oc.DeleteKafkaLink(ctx, resttest.ClusterID, "l").Force(true).Execute()
	closed(t, response, err)
}

func TestOfficialClientDecodesErrors(t *testing.T) {
	c := resttest.New(t)
	ctx, oc := officialClient(t, c)
	_, response, err := oc.GetKafkaLink(ctx, resttest.ClusterID, "gone").Execute()
	if response == nil || response.StatusCode != 404 {
		t.Fatalf("got %v", response)
	}
	response.Body.Close()
	if body := bodyOf(err); body == "" {
		t.Errorf("no body in %v", err)
	}
}
