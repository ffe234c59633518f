package config

// brokerQuotaKeys say over which time quotas are measured; the quotas themselves are set by AlterClientQuotas.
func brokerQuotaKeys() []Key {
	return []Key{
		Key{Name: "controller.quota.window.num", Type: Int, Default: "11", Fixed: true,
			Doc: "How many windows' worth of controller_mutation_rate a client may use at once."}.with(atLeast(1)),
		Key{Name: "controller.quota.window.size.seconds", Type: Int, Default: "1", Fixed: true,
			Doc: "Length of a window of controller_mutation_rate in seconds."}.with(atLeast(1)),
		Key{Name: "quota.window.num", Type: Int, Default: "11", Fixed: true,
			Doc: "How many windows client quotas are measured over. A client that was too fast rests until it is not, taken over all of " +
				"them."}.with(atLeast(1)),
		Key{Name: "quota.window.size.seconds", Type: Int, Default: "1", Fixed: true,
			Doc: "Length of a window of client quotas in seconds."}.with(atLeast(1)),
	}
}
