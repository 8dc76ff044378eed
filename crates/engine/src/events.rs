//! Kubernetes events. Repeated events are counted in one series. A failed event never fails a pass.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kernel::{SharedClock, cap};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::metrics::Metrics;

/// How many events may wait to be sent. More are dropped and counted.
const INBOX_SIZE: usize = 1024;
/// The longest note that the API server accepts.
const NOTE_BYTES: usize = 1024;
/// An equal event within this time belongs to the same series.
const SERIES_WINDOW: Duration = Duration::from_secs(600);
/// An object may have this many events at once, and one more every `REFILL`.
const BURST: f64 = 20.0;
const REFILL: Duration = Duration::from_secs(30);
/// How many series and how many budgets are cached at most.
const MAX_CACHED: usize = 10_000;

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    warning: bool,
    reason: String,
    message: String,
    pass: Option<String>,
}

impl Note {
    /// A normal event.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason: reason.into(),
            message: message.into(),
            pass: None,
        }
    }

    /// A warning: a user should act.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }

    pub(crate) fn pass(self, id: &str) -> Self {
        Self {
            pass: Some(id.to_owned()),
            ..self
        }
    }
}

/// Accepts events without waiting. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    inbox: mpsc::Sender<Message>,
    metrics: Metrics,
    instance: Arc<str>,
}

#[derive(Debug)]
enum Message {
    Record(Box<ObjectReference>, Note),
    /// Answered when all earlier events were sent or refused.
    Sent(oneshot::Sender<()>),
}

impl Events {
    /// The handle for events, and the sender that must be run.
    pub fn new(
        client: Client,
        clock: SharedClock,
        metrics: Metrics,
        instance: String,
    ) -> (Self, EventSender) {
        let (inbox, messages) = mpsc::channel(INBOX_SIZE);
        let instance: Arc<str> = instance.into();
        let sender = Sender {
            client,
            clock,
            instance: instance.clone(),
            messages,
            series: HashMap::new(),
            budgets: HashMap::new(),
        };
        (
            Self {
                inbox,
                metrics,
                instance,
            },
            EventSender(Arc::new(Mutex::new(sender))),
        )
    }

    /// The name of this process in its events.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Records an event about `regarding`. It is dropped and counted if too many wait.
    pub fn record(&self, regarding: ObjectReference, note: Note) {
        let message = Message::Record(Box::new(regarding), note);
        if self.inbox.try_send(message).is_err() {
            self.metrics.events_dropped.inc();
        }
    }

    /// Waits until all events recorded so far were sent or refused.
    pub(crate) async fn sent(&self) {
        let (done, sent) = oneshot::channel();
        if self.inbox.send(Message::Sent(done)).await.is_ok() {
            sent.await.ok(); // an error means that the sender has ended
        }
    }
}

/// Sends the recorded events. Clones share one inbox.
#[derive(Clone)]
pub struct EventSender(Arc<Mutex<Sender>>);

impl EventSender {
    /// Sends events until all [`Events`] are dropped. After a panic it can be run again: the event that
    /// caused the panic is lost, and the later ones are sent.
    pub async fn run(self) {
        self.0.lock().await.run().await;
    }
}

/// Events with an equal key are one series: UID, warning, reason, message.
type SeriesKey = (String, bool, String, String);

struct Series {
    namespace: String,
    name: String,
    count: i32,
    last: Duration,
}

struct Sender {
    client: Client,
    clock: SharedClock,
    instance: Arc<str>,
    messages: mpsc::Receiver<Message>,
    series: HashMap<SeriesKey, Series>,
    budgets: HashMap<String, (f64, Duration)>,
}

impl Sender {
    async fn run(&mut self) {
        while let Some(message) = self.messages.recv().await {
            match message {
                Message::Record(regarding, note) => {
                    if let Err(error) = self.send(*regarding, note).await {
                        tracing::debug!(%error, "event not recorded");
                    }
                }
                Message::Sent(done) => {
                    done.send(()).ok(); // fails if the waiting task was dropped
                }
            }
        }
    }

    async fn send(&mut self, regarding: ObjectReference, note: Note) -> Result<(), kube::Error> {
        let now = self.clock.elapsed();
        let uid = regarding.uid.clone().unwrap_or_default();
        if !self.take_token(&uid, now) {
            return Ok(());
        }
        let series_key = (uid, note.warning, note.reason.clone(), note.message.clone());
        let at = MicroTime(self.clock.now());
        if let Some(series) = self
            .series
            .get_mut(&series_key)
            .filter(|series| now.saturating_sub(series.last) < SERIES_WINDOW)
        {
            series.count += 1;
            series.last = now;
            let api = Api::<Event>::namespaced(self.client.clone(), &series.namespace);
            let patch = json!({"series": EventSeries { count: series.count, last_observed_time: at.clone() }});
            match api
                .patch(&series.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => {} // expired: create another
                other => return other.map(drop),
            }
        }
        let event = self.event(regarding, &note, at);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let created = api.create(&PostParams::default(), &event).await?;
        if self.series.len() >= MAX_CACHED {
            self.series
                .retain(|_, series| now.saturating_sub(series.last) < SERIES_WINDOW);
            if self.series.len() >= MAX_CACHED {
                self.series.clear();
            }
        }
        let name = created.metadata.name.unwrap_or_default();
        self.series.insert(
            series_key,
            Series {
                namespace,
                name,
                count: 1,
                last: now,
            },
        );
        Ok(())
    }

    /// Takes a token from the object's bucket. Returns false if the object has too many events, such as
    /// one that fails every second.
    fn take_token(&mut self, uid: &str, now: Duration) -> bool {
        if self.budgets.len() >= MAX_CACHED {
            self.budgets.clear();
        }
        let (tokens, since) = self.budgets.entry(uid.to_owned()).or_insert((BURST, now));
        let earned = now.saturating_sub(*since).as_secs_f64() / REFILL.as_secs_f64();
        *tokens = (*tokens + earned).min(BURST);
        *since = now;
        let is_allowed = *tokens >= 1.0;
        if is_allowed {
            *tokens -= 1.0;
        }
        is_allowed
    }

    fn event(&self, regarding: ObjectReference, note: &Note, at: MicroTime) -> Event {
        let name = regarding.name.clone().unwrap_or_default();
        let short = name[..name.floor_char_boundary(200)].trim_end_matches(['-', '.']);
        let stamp = format!("{:x}{:04x}", at.0.as_microsecond(), fastrand::u16(..));
        // The API server demands the namespace `default` for events of cluster-scoped objects.
        let namespace = regarding
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{short}.{stamp}")),
                namespace: Some(namespace),
                annotations: note
                    .pass
                    .clone()
                    .map(|id| [("pontoon.io/reconcile-id".to_owned(), id)].into()),
                ..ObjectMeta::default()
            },
            action: Some(note.reason.clone()), // the API server requires an action
            event_time: Some(at),
            note: Some(cap(&note.message, NOTE_BYTES)),
            reason: Some(note.reason.clone()),
            regarding: Some(regarding),
            reporting_controller: Some("pontoon.io/pontoon".to_owned()),
            reporting_instance: Some(self.instance.to_string()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Tasks;
    use crate::tasks::supervise;
    use kernel::RealClock;
    use kube::client::Body;

    /// Three events that wait to be sent, and the count of the created ones. The client panics over the
    /// first `panics` of them.
    fn three_events(panics: u32) -> (Events, EventSender, Arc<AtomicU32>) {
        let created = Arc::new(AtomicU32::new(0));
        let (requests, counted) = (AtomicU32::new(0), created.clone());
        let server = tower::service_fn(move |_: http::Request<Body>| {
            let panics = requests.fetch_add(1, Ordering::SeqCst) < panics;
            let counted = counted.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(!panics, "a mistake");
                counted.fetch_add(1, Ordering::SeqCst);
                let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
                    "metadata": {"name": "e"}, "eventTime": null});
                let body = Body::from(event.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::new(body))
            }
        });
        let clock: SharedClock = Arc::new(RealClock::new());
        let client = Client::new(server, "a");
        let (events, sender) = Events::new(client, clock, Metrics::default(), "me".into());
        for n in 0..3 {
            let note = Note::normal("Made", format!("number {n}"));
            events.record(ObjectReference::default(), note);
        }
        (events, sender, created)
    }

    #[tokio::test(start_paused = true)]
    async fn sent_resolves_after_all_waiting_events_are_sent() {
        let (events, sender, created) = three_events(0);
        let tasks = Tasks::default();
        tasks.spawn(sender.run());
        events.sent().await;
        assert_eq!(created.load(Ordering::SeqCst), 3);
        tasks.kill().await;
        events.sent().await; // returns at once after the sender has ended
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_panic_the_other_events_are_sent() {
        let (events, sender, created) = three_events(1);
        let clock: SharedClock = Arc::new(RealClock::new());
        let sending = supervise(&clock, || sender.clone().run(), |_| {});
        tokio::select! {
            () = sending => panic!("the sender must run on"),
            () = events.sent() => {}
        }
        assert_eq!(created.load(Ordering::SeqCst), 2);
    }
}
