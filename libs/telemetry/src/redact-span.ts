/**
 * Redacts a span: its name, attributes, events, links and status. A span without anything to redact is
 * returned unchanged, so that the common case needs no copy. The original is never changed.
 */
import type { Attributes, Link } from '@opentelemetry/api'
import type { ReadableSpan, TimedEvent } from '@opentelemetry/sdk-trace'
import type { GuardText } from './guard-text.ts'

/** Deeper values are dropped. Our own attributes are flat. */
const MAX_DEPTH = 4

/** Returns the span itself if nothing had to change, else a redacted view of it. */
export function redactSpan(span: ReadableSpan, guard: GuardText): ReadableSpan {
  const name = guard(span.name)
  const attributes = redactAttributes(span.attributes, guard)
  const events = mapChanged(span.events, (event) => redactEvent(event, guard))
  const links = mapChanged(span.links, (link) => redactLink(link, guard))
  const { message } = span.status
  const guarded = message === undefined ? undefined : guard(message)
  if (
    name === span.name &&
    attributes === span.attributes &&
    events === span.events &&
    links === span.links &&
    guarded === message
  )
    return span
  return {
    name,
    attributes,
    events,
    links,
    status: guarded === undefined ? span.status : { ...span.status, message: guarded },
    kind: span.kind,
    spanContext: () => span.spanContext(),
    ...(span.parentSpanContext === undefined ? {} : { parentSpanContext: span.parentSpanContext }),
    startTime: span.startTime,
    endTime: span.endTime,
    duration: span.duration,
    ended: span.ended,
    resource: span.resource,
    instrumentationScope: span.instrumentationScope,
    droppedAttributesCount: span.droppedAttributesCount,
    droppedEventsCount: span.droppedEventsCount,
    droppedLinksCount: span.droppedLinksCount,
  }
}

/** Returns the attributes themselves if nothing had to change. */
export function redactAttributes(attributes: Attributes, guard: GuardText): Attributes {
  let changed: Attributes | null = null
  for (const key in attributes) {
    const value = attributes[key]
    const safeKey = guard(key)
    const safe = typeof value === 'string' ? guard(value) : redactValue(value, guard, 0)
    if (safe === value && safeKey === key) continue
    changed ??= { ...attributes }
    if (safeKey !== key) delete changed[key]
    changed[safeKey] = safe
  }
  return changed ?? attributes
}

function redactValue(value: unknown, guard: GuardText, depth: number): unknown {
  if (typeof value === 'string') return guard(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth >= MAX_DEPTH) return '[too deep]'
  // Bytes cannot be searched for secrets, so they are dropped.
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
  if (Array.isArray(value)) return mapChanged(value, (item) => redactValue(item, guard, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [guard(key), redactValue(item, guard, depth + 1)]),
  )
}

function redactEvent(event: TimedEvent, guard: GuardText): TimedEvent {
  const name = guard(event.name)
  const attributes = event.attributes && redactAttributes(event.attributes, guard)
  if (name === event.name && attributes === event.attributes) return event
  return { ...event, name, ...(attributes === undefined ? {} : { attributes }) }
}

function redactLink(link: Link, guard: GuardText): Link {
  const attributes = link.attributes && redactAttributes(link.attributes, guard)
  return attributes === undefined || attributes === link.attributes ? link : { ...link, attributes }
}

/** Like map, but returns the same array if no item changed. */
function mapChanged<T>(items: T[], change: (item: T) => T): T[] {
  let changed: T[] | null = null
  for (const [index, item] of items.entries()) {
    const next = change(item)
    if (next === item) continue
    changed ??= [...items]
    changed[index] = next
  }
  return changed ?? items
}
