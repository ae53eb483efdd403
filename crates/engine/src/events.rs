//! Constructors for events that several crates record.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::name::Slug;
use berth_core::registry::Registry;
use berth_core::repository::Repository;
use berth_core::runner::Runner;

pub fn runner_event(kind: EventKind, runner: &Runner) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("runner", runner.id, runner.name.as_ref().map(Slug::as_str)))
}

pub fn registry_event(kind: EventKind, registry: &Registry) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("registry", registry.id, Some(registry.name.as_str())))
}

pub fn repository_event(kind: EventKind, repository: &Repository) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("repository", repository.id, Some(repository.url.as_str())))
}
