//! Traces: a span for each pass, sent to an OTLP collector. Only in builds with the feature `otlp`,
//! and only when `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector.

#[cfg(feature = "otlp")]
pub(crate) use sent::{Traces, start};
#[cfg(not(feature = "otlp"))]
pub(crate) use unsent::{Traces, start};

#[cfg(feature = "otlp")]
mod sent {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::registry::LookupSpan;

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

    /// The exporter of spans.
    pub(crate) struct Traces(Option<SdkTracerProvider>);

    impl Traces {
        /// Sends the remaining spans.
        pub(crate) fn finish(self) {
            if let Some(Err(error)) = self.0.map(|provider| provider.shutdown()) {
                eprintln!("pontoon: the last traces were not sent: {error}");
            }
        }
    }

    pub(crate) fn start<S>() -> Result<(Traces, Option<impl Layer<S>>), String>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        if std::env::var_os(ENDPOINT).is_none() {
            return Ok((Traces(None), None));
        }
        let exporter = SpanExporter::builder().with_http().build();
        let exporter = exporter.map_err(|error| {
            format!("{ENDPOINT}: {error}; write a URL such as http://localhost:4318")
        })?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name("pontoon").build())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("pontoon"));
        Ok((Traces(Some(provider)), Some(layer)))
    }
}

#[cfg(not(feature = "otlp"))]
mod unsent {
    use tracing_subscriber::layer::Identity;

    /// No traces are sent.
    pub(crate) struct Traces;

    impl Traces {
        /// Nothing remains to be sent.
        #[allow(clippy::unused_self)] // the same as with traces
        pub(crate) fn finish(self) {}
    }

    #[allow(clippy::unnecessary_wraps)] // the same as with traces
    pub(crate) fn start() -> Result<(Traces, Option<Identity>), String> {
        Ok((Traces, None))
    }
}
