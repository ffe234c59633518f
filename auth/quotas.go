package auth

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Entity types of quotas, by Kafka's names.
const (
	userEntity   = "user"
	clientEntity = "client-id"
	ipEntity     = "ip"
)

// quotaKeys is which quotas each kind of entity may have (QuotaConfigs).
var quotaKeys = map[bool][]string{
	false: {"consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage"},
	true:  {"connection_creation_rate"}, // of an address
}

// wholeQuotas are the quotas that are whole numbers, and the most that they can be (QuotaConfigs' types).
var wholeQuotas = map[string]float64{"consumer_byte_rate": math.MaxInt64, "producer_byte_rate": math.MaxInt64,
	"connection_creation_rate": math.MaxInt32}

// AlterClientQuotas implements handler.Security (KIP-546).
func (k *Keeper) AlterClientQuotas(ctx context.Context, rq *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	resp := rq.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for _, in := range rq.Entries {
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		entity, err := quotaEntity(in.Entity)
		if err == nil {
			err = checkQuotaOps(entity, in.Ops)
		}
		if err == nil && !rq.ValidateOnly {
			err = k.alterQuota(ctx, entity, in.Ops)
		}
		entry.ErrorCode, entry.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		for _, e := range in.Entity {
			named := kmsg.NewAlterClientQuotasResponseEntryEntity()
			named.Type, named.Name = e.Type, e.Name
			entry.Entity = append(entry.Entity, named)
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return resp
}

func (k *Keeper) alterQuota(ctx context.Context, entity meta.QuotaEntity, ops []kmsg.AlterClientQuotasRequestEntryOp) error {
	return k.records.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		values := map[string]float64{}
		if old := img.Quotas[entity]; old != nil {
			values = maps.Clone(old.Values)
		}
		for _, op := range ops {
			if op.Remove {
				delete(values, op.Key)
				continue
			}
			values[op.Key] = op.Value
		}
		if old := img.Quotas[entity]; old == nil && len(values) == 0 {
			return nil, nil
		}
		return []meta.Change{meta.PutQuota(&meta.Quota{Entity: entity, Values: values})}, nil
	})
}

// quotaEntity reads whom a quota is for; a null name means everybody else.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (meta.QuotaEntity, error) {
	bad := func(format string, args ...any) (meta.QuotaEntity, error) {
		return meta.QuotaEntity{}, kafka.Errorf(kafka.InvalidRequest, format, args...)
	}
	var entity meta.QuotaEntity
	if len(parts) == 0 {
		return bad("Invalid empty client quota entity.")
	}
	for _, part := range parts {
		name := meta.DefaultEntity
		if part.Name != nil {
			if name = *part.Name; name == "" {
				return bad("Empty %s not supported.", part.Type)
			}
		}
		var field *string
		switch part.Type {
		case userEntity:
			field = &entity.User
		case clientEntity:
			field = &entity.ClientID
		case ipEntity:
			field = &entity.IP
		default:
			return bad("Unhandled client quota entity type: %s; it must be user, client-id or ip.", part.Type)
		}
		if *field != "" {
			return bad("Client quota entity type %s is given twice.", part.Type)
		}
		*field = name
	}
	if entity.IP != "" && (entity.User != "" || entity.ClientID != "") {
		return bad("Invalid quota entity combination: an ip stands alone.")
	}
	if entity.IP != "" && entity.IP != meta.DefaultEntity {
		if _, err := netip.ParseAddr(entity.IP); err != nil {
			return bad("%s is not a valid IP address: a quota of connections is for an address, not for a name.", entity.IP)
		}
	}
	return entity, nil
}

func checkQuotaOps(entity meta.QuotaEntity, ops []kmsg.AlterClientQuotasRequestEntryOp) error {
	allowed := quotaKeys[entity.IP != ""]
	for _, op := range ops {
		switch {
		case !slices.Contains(allowed, op.Key):
			return kafka.Errorf(kafka.InvalidRequest, "Invalid configuration key %s; it must be one of %s.", op.Key, strings.Join(allowed, ", "))
		case op.Remove:
		case math.IsNaN(op.Value) || math.IsInf(op.Value, 0) || op.Value <= 0:
			return kafka.Errorf(kafka.InvalidRequest, "Quota %s must be greater than 0.", op.Key)
		case wholeQuotas[op.Key] > 0 && op.Value > wholeQuotas[op.Key]:
			return kafka.Errorf(kafka.InvalidRequest, "Proposed value for %s is too large: at most %.0f.", op.Key, wholeQuotas[op.Key])
		case wholeQuotas[op.Key] > 0 && math.Mod(op.Value, 1) > 1e-6:
			return kafka.Errorf(kafka.InvalidRequest, "%s cannot be a fractional value.", op.Key)
		}
	}
	return nil
}

// DescribeClientQuotas implements handler.Security.
func (k *Keeper) DescribeClientQuotas(_ context.Context, rq *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	resp := rq.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	wanted, err := quotaFilters(rq.Components)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		return resp
	}
	var found []*meta.Quota
	for entity, quota := range k.records.Image().Quotas {
		if quotaMatches(entity, wanted, rq.Strict) {
			found = append(found, quota)
		}
	}
	slices.SortFunc(found, func(a, b *meta.Quota) int {
		return cmp.Or(strings.Compare(a.Entity.User, b.Entity.User), strings.Compare(a.Entity.ClientID, b.Entity.ClientID),
			strings.Compare(a.Entity.IP, b.Entity.IP))
	})
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for _, quota := range found {
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, part := range entityParts(quota.Entity) {
			named := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			if named.Type = part.kind; part.name != meta.DefaultEntity {
				named.Name = kmsg.StringPtr(part.name)
			}
			entry.Entity = append(entry.Entity, named)
		}
		for _, key := range slices.Sorted(maps.Keys(quota.Values)) {
			value := kmsg.NewDescribeClientQuotasResponseEntryValue()
			value.Key, value.Value = key, quota.Values[key]
			entry.Values = append(entry.Values, value)
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return resp
}

type entityPart struct{ kind, name string }

func entityParts(e meta.QuotaEntity) []entityPart {
	var parts []entityPart
	for _, part := range []entityPart{{userEntity, e.User}, {clientEntity, e.ClientID}, {ipEntity, e.IP}} {
		if part.name != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// quotaFilters is the wanted name by entity type; "" is any name.
func quotaFilters(components []kmsg.DescribeClientQuotasRequestComponent) (map[string]string, error) {
	wanted := map[string]string{}
	for _, c := range components {
		if _, twice := wanted[c.EntityType]; twice {
			return nil, kafka.Errorf(kafka.InvalidRequest, "Entity type %s is given twice in the filter.", c.EntityType)
		}
		if c.EntityType != userEntity && c.EntityType != clientEntity && c.EntityType != ipEntity {
			return nil, kafka.Errorf(kafka.UnsupportedVersion, "Custom entity type '%s' not supported.", c.EntityType)
		}
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			if c.Match == nil || *c.Match == "" {
				return nil, kafka.Errorf(kafka.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but did not specify a match.")
			}
			wanted[c.EntityType] = *c.Match
		case kmsg.QuotasMatchTypeDefault:
			wanted[c.EntityType] = meta.DefaultEntity
		case kmsg.QuotasMatchTypeAny:
			wanted[c.EntityType] = ""
		default:
			return nil, kafka.Errorf(kafka.InvalidRequest, "Unknown match type %d.", c.MatchType)
		}
	}
	if _, ip := wanted[ipEntity]; ip && len(wanted) > 1 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Invalid entity filter component combination: an ip stands alone.")
	}
	return wanted, nil
}

func quotaMatches(e meta.QuotaEntity, wanted map[string]string, strict bool) bool {
	parts := entityParts(e)
	matched := 0
	for _, part := range parts {
		name, asked := wanted[part.kind]
		if !asked {
			if strict {
				return false
			}
			continue
		}
		if name != "" && name != part.name {
			return false
		}
		matched++
	}
	return matched == len(wanted)
}
