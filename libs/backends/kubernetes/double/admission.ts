/** Admission of the API server: accepts valid specs, and refuses others with the fields' names. */
import type { ServerResponse } from 'node:http'
import { Refusal } from './answers.ts'
import { apiVersionOf, groupOf, KINDS, resourceOf } from './discovery.ts'
import { metadataCauses, untextual } from './labels.ts'
import type { Cause, Checked } from './schema-check.ts'
import { checkSpec, checkStatus } from './schemas.ts'

/** Returns a spec as it is stored and the fields that were removed. Throws Refusal for an invalid spec. */
export function checkedSpec(
  plural: string,
  name: string,
  spec: unknown,
  query: URLSearchParams,
  response: ServerResponse,
): Record<string, unknown> {
  return admitted(checkSpec(KINDS[plural] ?? '', spec), plural, name, query, response)
}

/** Like `checkedSpec`, but for a status. */
export function checkedStatus(
  plural: string,
  name: string,
  status: unknown,
  query: URLSearchParams,
  response: ServerResponse,
): Record<string, unknown> {
  return admitted(checkStatus(KINDS[plural] ?? '', status), plural, name, query, response)
}

function admitted(
  { value, causes, unknown }: Checked,
  plural: string,
  name: string,
  query: URLSearchParams,
  response: ServerResponse,
): Record<string, unknown> {
  const told = unknown.map((field) => `unknown field "${field}"`)
  if (told.length > 0 && query.get('fieldValidation') === 'Strict')
    throw new Refusal(400, 'BadRequest', `strict decoding error: ${told.join(', ')}`)
  if (causes.length > 0) throw invalid(plural, name, causes)
  if (told.length > 0 && query.get('fieldValidation') !== 'Ignore')
    response.setHeader(
      'Warning',
      told.map((text) => `299 - ${JSON.stringify(text)}`),
    )
  return value as Record<string, unknown>
}

/** The refusal of an invalid object, field by field. */
export function invalid(plural: string, name: string, causes: readonly Cause[]): Refusal {
  const text = causes.map(({ field, message }) => `${field}: ${message}`).join(', ')
  const group = groupOf(plural)
  const kind = group === '' ? KINDS[plural] : `${KINDS[plural]}.${group}`
  return new Refusal(422, 'Invalid', `${kind} "${name}" is invalid: ${text}`, { causes })
}

/** Throws Refusal for an invalid name, label or annotation. */
export function checkMetadata(
  plural: string,
  metadata: { name: string; labels?: unknown; annotations?: unknown },
): void {
  const unreadable = untextual(metadata)
  if (unreadable !== null)
    throw new Refusal(
      400,
      'BadRequest',
      `${KINDS[plural]} in ${apiVersionOf(plural)} cannot be handled: ${unreadable} is not of type string`,
    )
  const causes = metadataCauses(metadata)
  if (causes.length > 0) throw invalid(plural, metadata.name, causes)
}

/** A kind as messages show it. */
export const shown = (plural: string): string => resourceOf(plural)
