/**
 * Validation of names, labels and annotations (Kubernetes' documentation, "Labels and Selectors" and "Object
 * Names and IDs"; k8s.io/apimachinery, pkg/util/validation).
 */
import type { Cause } from './schema-check.ts'

/** A prefix of a key, or an object's name. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const SUBDOMAIN_MAX = 253
const PART = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const PART_MAX = 63
/** Size limit of all annotations of an object, including keys. */
const ANNOTATIONS_MAX = 256 * 1024

const ENDS = 'and must start and end with an alphanumeric character'
const SUBDOMAIN_WORDS = `must consist of lower case alphanumeric characters, '-' or '.', ${ENDS}`
const PART_WORDS = `must consist of alphanumeric characters, '-', '_' or '.', ${ENDS}`

/** Error of a name that must be a DNS subdomain; null if valid. */
export function faultOfSubdomain(text: string): string | null {
  if (text === '') return 'must be non-empty'
  if (text.length > SUBDOMAIN_MAX) return `must be no more than ${SUBDOMAIN_MAX} characters`
  return SUBDOMAIN.test(text) ? null : SUBDOMAIN_WORDS
}

/** Error of a label's or annotation's key, which may have a prefix; null if valid. */
export function faultOfKey(key: string): string | null {
  const parts = key.split('/')
  const [name = '', prefix] = parts.toReversed()
  if (parts.length > 2) return `a qualified name ${PART_WORDS}, with an optional DNS subdomain prefix and '/'`
  const wrongPrefix = prefix === undefined ? null : faultOfSubdomain(prefix)
  if (wrongPrefix !== null) return `prefix part ${wrongPrefix}`
  if (name === '') return 'name part must be non-empty'
  if (name.length > PART_MAX) return `name part must be no more than ${PART_MAX} characters`
  return PART.test(name) ? null : `name part ${PART_WORDS}`
}

/** Error of a label's value; null if valid. */
export function faultOfValue(value: string): string | null {
  if (value.length > PART_MAX) return `must be no more than ${PART_MAX} characters`
  return value === '' || PART.test(value) ? null : `a valid label must be an empty string or ${PART_WORDS}`
}

/** Errors in the metadata fields that clients write. */
export function metadataCauses(metadata: { name: string; labels?: unknown; annotations?: unknown }): Cause[] {
  const wrongName = faultOfSubdomain(metadata.name)
  return [
    ...(wrongName === null ? [] : [invalidValue('metadata.name', metadata.name, wrongName)]),
    ...labelCauses(metadata.labels),
    ...annotationCauses(metadata.annotations),
  ]
}

/**
 * Path of the first label or annotation that is not a string, so that a server cannot decode the object. Null
 * for none.
 */
export function untextual(metadata: { labels?: unknown; annotations?: unknown }): string | null {
  for (const field of ['labels', 'annotations'] as const) {
    const given = metadata[field]
    if (given === undefined || given === null) continue
    if (typeof given !== 'object' || Array.isArray(given)) return `metadata.${field}`
    const wrong = Object.entries(given).find(([, value]) => typeof value !== 'string' && value !== null)
    if (wrong !== undefined) return `metadata.${field}.${wrong[0]}`
  }
  return null
}

function labelCauses(labels: unknown): Cause[] {
  return Object.entries((labels ?? {}) as Record<string, string>).flatMap(([key, value]) => {
    const faults = [
      [key, faultOfKey(key)],
      [value, faultOfValue(value ?? '')],
    ] as const
    return faults.flatMap(([text, why]) => (why === null ? [] : [invalidValue('metadata.labels', text, why)]))
  })
}

function annotationCauses(annotations: unknown): Cause[] {
  const entries = Object.entries((annotations ?? {}) as Record<string, string>)
  const size = entries.reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value ?? ''),
    0,
  )
  const causes = entries.flatMap(([key]) => {
    // Annotation keys are case-insensitive.
    const why = faultOfKey(key.toLowerCase())
    return why === null ? [] : [invalidValue('metadata.annotations', key, why)]
  })
  if (size <= ANNOTATIONS_MAX) return causes
  const message = `Too long: may not be more than ${ANNOTATIONS_MAX} bytes`
  return [...causes, { reason: 'FieldValueTooLong', field: 'metadata.annotations', message }]
}

const invalidValue = (field: string, value: string, why: string): Cause => ({
  reason: 'FieldValueInvalid',
  field,
  message: `Invalid value: ${JSON.stringify(value)}: ${why}`,
})
