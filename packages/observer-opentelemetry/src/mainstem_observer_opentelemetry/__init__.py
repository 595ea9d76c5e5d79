"""The observer `opentelemetry`: a span for each batch, by OTLP."""
