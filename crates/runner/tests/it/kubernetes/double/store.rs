//! The objects of the double, with resource versions and watches, as the API server keeps them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

/// Namespace, plural resource name, and object name.
pub(super) type Key = (String, String, String);

#[derive(Default)]
pub(super) struct ObjectStore {
    state: Mutex<StoreState>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct StoreState {
    pub(super) objects: BTreeMap<Key, Value>,
    version: u64,
    /// Every change: its version, the kind of event, and the object after it.
    history: Vec<(u64, Key, &'static str, Value)>,
    uids: u64,
}

impl StoreState {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn create(&mut self, key: Key, mut object: Value) -> Value {
        self.uids += 1;
        let meta = &mut object["metadata"];
        meta["uid"] = json!(format!("uid-{}", self.uids));
        meta["name"] = json!(key.2);
        meta["namespace"] = json!(key.0);
        meta["generation"] = json!(1);
        self.put(key, object, "ADDED")
    }

    pub(super) fn replace(&mut self, key: Key, object: Value) -> Value {
        self.put(key, object, "MODIFIED")
    }

    /// Changes an object, if it exists.
    pub(super) fn modify(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> Option<Value> {
        let mut object = self.objects.get(key)?.clone();
        change(&mut object);
        Some(self.put(key.clone(), object, "MODIFIED"))
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Value> {
        let object = self.objects.get(key)?.clone();
        let object = self.put(key.clone(), object, "DELETED");
        self.objects.remove(key);
        Some(object)
    }

    fn put(&mut self, key: Key, mut object: Value, event: &'static str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key.clone(), object.clone());
        self.history.push((self.version, key, event, object.clone()));
        object
    }

    pub(super) fn list(&self, namespace: &str, resource: &str) -> Vec<Value> {
        let of_kind = |key: &Key| key.0 == namespace && key.1 == resource;
        self.objects.iter().filter(|(key, _)| of_kind(key)).map(|(_, object)| object.clone()).collect()
    }

    /// The changes after a version.
    pub(super) fn changes_after(
        &self,
        version: u64,
        namespace: &str,
        resource: &str,
    ) -> Vec<(u64, &'static str, Value)> {
        let later = self
            .history
            .iter()
            .filter(|(at, key, ..)| *at > version && key.0 == namespace && key.1 == resource);
        later.map(|(at, _, event, object)| (*at, *event, object.clone())).collect()
    }
}

impl ObjectStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().expect("not poisoned")
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut StoreState) -> T) -> T {
        let done = change(&mut self.lock());
        self.changed.notify_all();
        done
    }

    /// Waits for a change, or for a short time.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, StoreState>) -> MutexGuard<'a, StoreState> {
        self.changed.wait_timeout(state, Duration::from_millis(200)).expect("not poisoned").0
    }
}

/// Whether labels match a selector such as `a=b,c=d`.
pub(super) fn matches_labels(object: &Value, selector: &str) -> bool {
    selector.split(',').filter(|part| !part.is_empty()).all(|part| {
        let (name, value) = part.split_once('=').expect("only equality is supported");
        object["metadata"]["labels"][name] == value
    })
}

/// Whether fields match a selector such as `involvedObject.name=a`.
pub(super) fn matches_fields(object: &Value, selector: &str) -> bool {
    selector.split(',').filter(|part| !part.is_empty()).all(|part| {
        let (path, value) = part.split_once('=').expect("only equality is supported");
        object.pointer(&format!("/{}", path.replace('.', "/"))).is_some_and(|found| found == value)
    })
}
