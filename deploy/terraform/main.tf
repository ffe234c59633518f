# A link and mirror topics on hawser with the provider that drives Confluent's REST API. See docs/terraform.md.
terraform {
  required_providers {
    confluent = {
      source = "confluentinc/confluent"
    }
  }
}

variable "hawser" {
  description = "The cluster that mirrors: its id ('hawser cluster describe'), its REST URL, and a SASL user that may make links and topics ('hawser acl grant-role', role CloudClusterAdmin)."
  type        = object({ id = string, rest_endpoint = string, user = string, password = string })
  sensitive   = true
}

variable "source_cluster" {
  description = "The Kafka that is mirrored: its cluster id, its SASL_SSL listener, and a user of PLAIN that may READ and DESCRIBE_CONFIGS the topics."
  type        = object({ id = string, bootstrap_endpoint = string, user = string, password = string })
  sensitive   = true
}

variable "topics" {
  description = "What becomes of each mirror topic: ACTIVE, PAUSED, PROMOTED or FAILED_OVER."
  type        = map(string)
  default     = { orders = "ACTIVE" }
}

provider "confluent" {} # no login: everything goes to rest_endpoint below

resource "confluent_cluster_link" "from_prod" {
  link_name = "from-prod"

  source_kafka_cluster {
    id                 = var.source_cluster.id
    bootstrap_endpoint = var.source_cluster.bootstrap_endpoint
    credentials {
      key    = var.source_cluster.user
      secret = var.source_cluster.password
    }
  }

  destination_kafka_cluster {
    id            = var.hawser.id
    rest_endpoint = var.hawser.rest_endpoint
    credentials {
      key    = var.hawser.user
      secret = var.hawser.password
    }
  }

  config = {
    "consumer.offset.sync.enable"   = "true"
    "consumer.offset.sync.ms"       = "1000"
    "consumer.offset.group.filters" = jsonencode({ groupFilters = [{ name = "*", patternType = "LITERAL", filterType = "INCLUDE" }] })
  }
}

resource "confluent_kafka_mirror_topic" "mirrored" {
  for_each = var.topics

  source_kafka_topic {
    topic_name = each.key
  }
  cluster_link {
    link_name = confluent_cluster_link.from_prod.link_name
  }
  kafka_cluster {
    id            = var.hawser.id
    rest_endpoint = var.hawser.rest_endpoint
    credentials {
      key    = var.hawser.user
      secret = var.hawser.password
    }
  }
  status = each.value
}
