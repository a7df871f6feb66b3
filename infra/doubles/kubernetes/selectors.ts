/** Which objects a list or a watch is about: label selectors as kubectl writes them, and the fields that custom resources have. */
import type { KubeObject } from './object-store.ts'

/** A selector that the API server would refuse. */
export class BadSelector extends Error {}

export type Selects = (object: KubeObject) => boolean

/** Reads both selectors of a query. Throws BadSelector. */
export function selectorOf(query: URLSearchParams): Selects {
  const labels = termsOf(query.get('labelSelector')).map(labelTerm)
  const fields = termsOf(query.get('fieldSelector')).map(fieldTerm)
  return (object) => labels.every((term) => term(object)) && fields.every((term) => term(object))
}

/** At commas that do not stand in brackets. */
const termsOf = (text: string | null): string[] =>
  (text ?? '')
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term) => term !== '')

function labelTerm(term: string): Selects {
  const set = /^(\S+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(term)
  if (set !== null) {
    const [, key = '', operator, list = ''] = set
    const values = list.split(',').map((value) => value.trim())
    return ({ metadata }) => {
      const value = metadata.labels?.[key]
      return operator === 'in'
        ? value !== undefined && values.includes(value)
        : !values.includes(value ?? '\0')
    }
  }
  const [, not, key = '', operator, wanted] = /^(!?)([\w./-]+)\s*(?:(!=|==?)\s*([\w.-]*))?$/.exec(term) ?? []
  if (key === '') throw new BadSelector(`unable to parse requirement: ${term}`)
  if (operator === undefined) return ({ metadata }) => (metadata.labels?.[key] !== undefined) === (not === '')
  return ({ metadata }) => (metadata.labels?.[key] === wanted) === (operator !== '!=')
}

function fieldTerm(term: string): Selects {
  const [, field, operator, wanted] = /^([\w.]+)(!=|==?)(.*)$/.exec(term) ?? []
  if (field !== 'metadata.name' && field !== 'metadata.namespace')
    throw new BadSelector(`field label not supported: ${field ?? term}`)
  const key = field === 'metadata.name' ? 'name' : 'namespace'
  return ({ metadata }) => (metadata[key] === wanted) === (operator !== '!=')
}
