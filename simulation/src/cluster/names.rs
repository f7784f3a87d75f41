//! Names of indices: patterns, aliases, templates, creation.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use spinney::forest::index_pattern::fits;
use spinney::time::Millis;

use super::fault::Fault;
use super::index::Index;
use super::{Request, SimCluster};

impl SimCluster {
    /// The indices that a list of names, patterns, aliases and exclusions stands for.
    pub(super) fn resolve(&self, request: &Request<'_>, expression: &str) -> Result<BTreeSet<String>, Fault> {
        let (mut found, mut had_pattern) = (BTreeSet::new(), false);
        let expanded = request.query.get("expand_wildcards").map(String::as_str).unwrap_or_default();
        let shows_hidden = expanded.contains("all") || expanded.contains("hidden");
        for part in expression.split(',') {
            let pattern = if matches!(part, "" | "_all") { "*" } else { part };
            if let Some(excluded) = pattern.strip_prefix('-').filter(|_| had_pattern) {
                found.retain(|name: &String| !fits(excluded, name));
            } else if pattern.contains('*') {
                had_pattern = true;
                let is_shown = |name: &str, index: &Index| {
                    let is_hidden = index.is_set("index.hidden") || name.starts_with('.');
                    !is_hidden || shows_hidden || pattern.starts_with('.') && name.starts_with('.')
                };
                let indices = self.indices.iter().filter(|(name, index)| fits(pattern, name) && is_shown(name, index));
                found.extend(indices.map(|(name, _)| name.clone()));
                let aliases = self.aliases.iter().filter(|(alias, _)| fits(pattern, alias));
                found.extend(aliases.flat_map(|(_, behind)| behind.keys().cloned()));
            } else if self.indices.contains_key(pattern) {
                found.insert(pattern.to_owned());
            } else if let Some(behind) = self.aliases.get(pattern) {
                found.extend(behind.keys().cloned());
            } else if !request.flag("ignore_unavailable") {
                return Err(Fault::no_index(pattern));
            }
        }
        if found.is_empty() && request.query.get("allow_no_indices").is_some_and(|allows| allows == "false") {
            return Err(Fault::no_index(expression));
        }
        Ok(found)
    }

    /// The index that a name is written to; one that is missing is created.
    pub(super) fn write_index(&mut self, now: i64, name: &str) -> Result<String, Fault> {
        let name = match name.starts_with('<') {
            true => spinney::engine::resolve_date(name, Millis(now)).ok_or_else(|| Fault::unknown(name))?,
            false => name.to_owned(),
        };
        if let Some(behind) = self.aliases.get(&name) {
            let only = behind.len() == 1;
            let written = behind.iter().find(|(_, is_write)| only || **is_write);
            let index = written.map(|(index, _)| index.clone());
            return index.ok_or_else(|| Fault::bad(format!("no write index is defined for alias [{name}]")));
        }
        if !self.indices.contains_key(&name) {
            if name.starts_with('.') {
                return Err(Fault::no_index(&name));
            }
            self.make(&name, &Value::Null)?;
        }
        Ok(name)
    }

    /// Creates an index from the templates that fit its name and a body.
    pub(super) fn make(&mut self, name: &str, body: &Value) -> Result<(), Fault> {
        if self.indices.contains_key(name) || self.aliases.contains_key(name) {
            let reason = format!("index [{name}] already exists");
            return Err(Fault::new(400, "resource_already_exists_exception", reason));
        }
        if name.is_empty() || name.starts_with(['_', '-', '+']) || name.contains(['*', ' ', ',']) || has_upper(name) {
            return Err(Fault::new(400, "invalid_index_name_exception", format!("Invalid index name [{name}]")));
        }
        self.numbers += 1;
        let mut index = Index::new(&format!("uuid-{:06}", self.numbers));
        let template = self.template_of(name);
        let components = template.iter().flat_map(|template| template["composed_of"].as_array()).flatten();
        let components = components.filter_map(|component| self.components.get(component.as_str()?));
        let own = template.iter().map(|template| &template["template"]);
        for part in components.map(|component| &component["template"]).chain(own).chain([body]) {
            set(&mut index.settings, "", &part["settings"]);
            index.mapping.put(&part["mappings"])?;
            for (alias, of) in part["aliases"].as_object().into_iter().flatten() {
                let behind = self.aliases.entry(alias.clone()).or_default();
                behind.insert(name.to_owned(), of["is_write_index"] == true);
            }
        }
        self.indices.insert(name.to_owned(), index);
        Ok(())
    }

    fn template_of(&self, name: &str) -> Option<Value> {
        let fitting = self.templates.values().filter(|template| {
            let patterns = template["index_patterns"].as_array().into_iter().flatten();
            patterns.filter_map(Value::as_str).any(|pattern| fits(pattern, name))
        });
        fitting.max_by_key(|template| template["priority"].as_i64().unwrap_or(0)).cloned()
    }

    /// `_resolve/index`.
    pub(super) fn resolved(&self, request: &Request<'_>, expression: &str) -> Result<Value, Fault> {
        let found = self.resolve(request, expression)?;
        let names = |name: &str| expression.split(',').any(|part| fits(part, name) || part == "_all");
        let aliases = self.aliases.iter().filter(|(alias, _)| names(alias));
        let aliases: Vec<Value> = aliases
            .map(|(alias, behind)| {
                let behind: Vec<&String> = behind.keys().collect();
                // The servers write one name without brackets.
                let behind = if let [only] = *behind { json!(only) } else { json!(behind) };
                json!({"name": alias, "indices": behind})
            })
            .collect();
        let indices: Vec<Value> = found
            .iter()
            .filter(|name| names(name))
            .map(|name| {
                let of = self.aliases.iter().filter(|(_, behind)| behind.contains_key(name));
                let of: Vec<&String> = of.map(|(alias, _)| alias).collect();
                let mut one = json!({"name": name, "attributes": ["open"]});
                if !of.is_empty() {
                    one["aliases"] = json!(of);
                }
                one
            })
            .collect();
        Ok(json!({"indices": indices, "aliases": aliases, "data_streams": []}))
    }

    /// `GET _alias/{name}`.
    pub(super) fn aliases_named(&self, pattern: &str) -> Result<Value, Fault> {
        let mut answer = json!({});
        for (alias, behind) in self.aliases.iter().filter(|(alias, _)| fits(pattern, alias)) {
            for (index, is_write) in behind {
                answer[index]["aliases"][alias] = if *is_write { json!({"is_write_index": true}) } else { json!({}) };
            }
        }
        match answer.as_object().is_some_and(Map::is_empty) {
            true => Err(Fault::new(404, "aliases_not_found_exception", format!("alias [{pattern}] missing"))),
            false => Ok(answer),
        }
    }

    pub(super) fn add_alias(
        &mut self,
        request: &Request<'_>,
        indices: &str,
        alias: &str,
        of: &Value,
    ) -> Result<(), Fault> {
        if self.indices.contains_key(alias) {
            return Err(Fault::new(400, "invalid_alias_name_exception", "an index exists with the same name"));
        }
        for index in self.resolve(request, indices)? {
            self.aliases.entry(alias.to_owned()).or_default().insert(index, of["is_write_index"] == true);
        }
        Ok(())
    }
}

fn has_upper(name: &str) -> bool {
    name.chars().any(char::is_uppercase)
}

/// Puts settings, nested or flat, under their flat names.
pub(super) fn set(settings: &mut Map<String, Value>, prefix: &str, value: &Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let name = match prefix {
                    "" if key == "index" || key.starts_with("index.") => key.clone(),
                    "" => format!("index.{key}"),
                    _ => format!("{prefix}.{key}"),
                };
                set(settings, &name, value);
            }
        }
        Value::Null if !prefix.is_empty() => drop(settings.remove(prefix)),
        Value::Null => {}
        Value::String(_) => drop(settings.insert(prefix.to_owned(), value.clone())),
        other => drop(settings.insert(prefix.to_owned(), other.to_string().into())),
    }
}
