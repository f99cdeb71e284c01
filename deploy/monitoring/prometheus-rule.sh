#!/usr/bin/env bash
# Prints rules.yml as the object that the Prometheus operator takes:
#   deploy/monitoring/prometheus-rule.sh > deploy/kubernetes/components/monitoring/prometheus-rule.yaml
# tests/integration/test_manifests.py compares the two, so that they cannot drift apart.
set -euo pipefail

cat <<'END'
# Made by deploy/monitoring/prometheus-rule.sh: change deploy/monitoring/rules.yml instead.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: snowfleet
  labels:
    app.kubernetes.io/name: snowfleet
spec:
END
sed -n '/^groups:/,$ s/^\(.\)/  \1/p' "$(dirname "${BASH_SOURCE[0]}")/rules.yml"
