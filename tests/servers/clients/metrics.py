"""Reads OpenMetrics text from standard input with a strict parser, and prints its families with the names of their samples."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    families[family.name] = sorted({sample.name for sample in family.samples})
json.dump(families, sys.stdout)
