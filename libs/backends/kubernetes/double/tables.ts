/** Tables for kubectl (`as=Table`) with the printer columns of each kind. */
import type { KubeObject } from './object-store.ts'

interface Column {
  name: string
  type: 'string' | 'integer' | 'date'
  cell: (object: KubeObject) => unknown
}

const COLUMN = { format: '', description: '', priority: 0 }
const name: Column = { name: 'Name', type: 'string', cell: ({ metadata }) => metadata.name }
const age: Column = { name: 'Age', type: 'string', cell: ({ metadata }) => ageOf(metadata.creationTimestamp) }
const ready: Column = { name: 'Ready', type: 'string', cell: (object) => readiness(object)?.status ?? '' }
const reason: Column = { name: 'Reason', type: 'string', cell: (object) => readiness(object)?.reason ?? '' }

const COLUMNS: Record<string, Column[]> = {
  pods: [
    name,
    { name: 'Ready', type: 'string', cell: ({ status }) => readyContainers(status) },
    { name: 'Status', type: 'string', cell: ({ status, metadata }) => podState(status, metadata) },
    { name: 'Restarts', type: 'string', cell: () => '0' },
    age,
  ],
  sandboxes: [name, ready, reason, age],
  sandboxclaims: [
    name,
    ready,
    {
      name: 'Sandbox',
      type: 'string',
      cell: ({ status }) => (status?.['sandbox'] as { name?: string } | undefined)?.name ?? '',
    },
    reason,
    age,
  ],
  sandboxwarmpools: [
    name,
    { name: 'Ready', type: 'integer', cell: ({ status }) => status?.['readyReplicas'] ?? 0 },
    { name: 'Desired', type: 'integer', cell: ({ spec }) => spec['replicas'] ?? 1 },
    age,
  ],
  sandboxtemplates: [name, age],
}

/** Whether a client prefers a table to objects. */
export const wantsTable = (accept: string | undefined): boolean =>
  /^application\/json;(?=[^,]*as=Table)(?=[^,]*g=meta\.k8s\.io)(?=[^,]*v=v1(;|,|$))/.test(accept ?? '')

/** Rows for objects of one kind; `metadata` is the list's. */
export function tableOf(plural: string, objects: readonly KubeObject[], metadata: object): object {
  const columns = COLUMNS[plural] ?? [name, age]
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: columns.map((column) => ({
      ...COLUMN,
      name: column.name,
      type: column.type,
      format: column === name ? 'name' : '',
    })),
    rows: objects.map((object) => ({
      cells: columns.map(({ cell }) => cell(object)),
      object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata },
    })),
  }
}

function readyContainers(status: KubeObject['status']): string {
  const containers = (status?.['containerStatuses'] ?? []) as { ready: boolean }[]
  return `${containers.filter(({ ready: isReady }) => isReady).length}/${Math.max(1, containers.length)}`
}

const podState = (status: KubeObject['status'], { deletionTimestamp }: KubeObject['metadata']): unknown =>
  deletionTimestamp === undefined ? status?.['phase'] : 'Terminating'

function readiness({ status }: KubeObject): { status: string; reason: string } | undefined {
  const conditions = status?.['conditions'] as { type: string; status: string; reason: string }[] | undefined
  return conditions?.find(({ type }) => type === 'Ready')
}

/** An age roughly as in kubectl: 5s, 7m, 3h. */
function ageOf(since: string): string {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 1000))
  if (seconds < 120) return `${seconds}s`
  return seconds < 7200 ? `${Math.floor(seconds / 60)}m` : `${Math.floor(seconds / 3600)}h`
}
