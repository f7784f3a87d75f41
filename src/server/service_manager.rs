//! Notifications to the service manager that started the process: systemd with `Type=notify`.

#[cfg(target_os = "linux")]
use sd_notify::NotifyState;

/// Reports that requests are served. Without a service manager that asks for it, nothing is sent.
pub(super) fn ready() {
    #[cfg(target_os = "linux")]
    notify(NotifyState::Ready);
}

/// Reports that the process drains and ends.
pub(super) fn stopping() {
    #[cfg(target_os = "linux")]
    notify(NotifyState::Stopping);
}

#[cfg(target_os = "linux")]
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager named by NOTIFY_SOCKET cannot be notified");
    }
}
