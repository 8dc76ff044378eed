//! The controller of migrations, for all that wakes it.

use std::sync::OnceLock;

use engine::Running;
use kernel::{CallError, Class, ObjectKey};

/// The controller of migrations, once it runs.
#[derive(Default)]
pub(crate) struct MigrationController(OnceLock<Running>);

impl MigrationController {
    /// Sets it, once.
    pub(crate) fn set(&self, controller: Running) {
        let _ = self.0.set(controller);
    }

    /// Requests a pass over a migration. Before the controller runs, every migration has a pass anyway.
    pub(crate) fn wake(&self, migration: &ObjectKey) {
        if let Some(controller) = self.0.get() {
            controller.wake(migration);
        }
    }

    /// The controller.
    pub(crate) fn running(&self) -> Result<&Running, CallError> {
        let starting = || CallError::new(Class::Transient, "the controller is starting");
        self.0.get().ok_or_else(starting)
    }
}
