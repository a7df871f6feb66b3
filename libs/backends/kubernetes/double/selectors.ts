/** Label and field selectors of a list or watch. */
import { BadSelector, labelSelector } from './label-selector.ts'
import type { KubeObject } from './object-store.ts'

export type Selects = (object: KubeObject) => boolean

/** Fields of every kind. */
const FIELDS = ['metadata.name', 'metadata.namespace']
/** Additional fields of pods (Kubernetes' documentation, "Field Selectors"). */
const POD_FIELDS = [
  'spec.nodeName',
  'spec.restartPolicy',
  'spec.schedulerName',
  'spec.serviceAccountName',
  'status.phase',
  'status.podIP',
]

/** Parses both selectors of a query. Throws BadSelector. */
export function selectorOf(plural: string, query: URLSearchParams): Selects {
  const labels = labelSelector(query.get('labelSelector') ?? '')
  const fields = (query.get('fieldSelector') ?? '')
    .split(',')
    .map((term) => term.trim())
    .filter((term) => term !== '')
    .map((term) => fieldTerm(plural, term))
  return (object) => labels(object.metadata.labels ?? {}) && fields.every((term) => term(object))
}

function fieldTerm(plural: string, term: string): Selects {
  const [, field, operator, wanted] = /^([\w.]+)(!=|==?)(.*)$/.exec(term) ?? []
  const known = plural === 'pods' ? [...FIELDS, ...POD_FIELDS] : FIELDS
  if (field === undefined || !known.includes(field))
    throw new BadSelector(`field label not supported: ${field ?? term}`)
  const [part = '', name = ''] = field.split('.')
  return (object) => {
    const members = { ...object[part as 'metadata' | 'spec' | 'status'] } as Record<string, unknown>
    const found = members[name]
    return ((typeof found === 'string' ? found : '') === wanted) === (operator !== '!=')
  }
}
