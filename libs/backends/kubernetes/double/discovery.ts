/** Discovery: versions, groups, resources and schemas of Agent Sandbox's kinds, pods and stored kinds. */
import { PLURALS } from './object-store.ts'
import { storedGroups, storedResources } from './stored-kinds.ts'

/** The only version of Agent Sandbox's groups. */
const VERSION = 'v1beta1'
/** The version of the core group. */
const CORE_VERSION = 'v1'
const GROUPS: Record<string, string[]> = {
  'agents.x-k8s.io': ['Sandbox'],
  'extensions.agents.x-k8s.io': ['SandboxClaim', 'SandboxWarmPool', 'SandboxTemplate'],
}

/** Kinds by their name in paths. */
export const KINDS: Record<string, string> = Object.fromEntries(
  Object.entries(PLURALS).map(([kind, plural]) => [plural, kind]),
)
const SHORT_NAMES: Record<string, string[]> = {
  Pod: ['po'],
  SandboxClaim: ['sandboxclaim'],
  SandboxWarmPool: ['swp'],
  SandboxTemplate: ['sandboxtemplate'],
  Sandbox: ['sandbox'],
}
/** Verbs of a kind. Only controllers create pods. */
const VERBS: Record<string, string[]> = { Pod: ['delete', 'get', 'list', 'patch', 'watch'] }
const ALL_VERBS = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch']
const SUBRESOURCES: Record<string, string[]> = {
  Sandbox: ['status'],
  SandboxClaim: ['status'],
  SandboxWarmPool: ['status', 'scale'],
  SandboxTemplate: [],
}

/** Whether a kind has that subresource. */
export const hasSubresource = (plural: string, name: string): boolean =>
  SUBRESOURCES[KINDS[plural] ?? '']?.includes(name) === true

/** API group of a kind, which is given by its name in paths. Empty for the core group. */
export const groupOf = (plural: string): string =>
  Object.keys(GROUPS).find((group) => isServed(group, VERSION, plural)) ?? ''

/** The `apiVersion` of a kind's objects. */
export const apiVersionOf = (plural: string): string =>
  groupOf(plural) === '' ? CORE_VERSION : `${groupOf(plural)}/${VERSION}`

/** A kind's name as in messages, with its group if it has one. */
export const resourceOf = (plural: string): string =>
  groupOf(plural) === '' ? plural : `${plural}.${groupOf(plural)}`

/** Whether the double serves the resource. */
export const isServed = (group: string, version: string, plural: string): boolean =>
  group === ''
    ? version === CORE_VERSION && plural === PLURALS['Pod']
    : version === VERSION && (GROUPS[group] ?? []).some((kind) => PLURALS[kind] === plural)

/** The answer to a discovery request; null for any other path. */
export function discovery(path: string): { type: string; body: string } | null {
  // An empty schema document: kubectl then lets the server validate objects.
  if (path === '/openapi/v2')
    return { type: 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf', body: '' }
  const found = listing(path)
  return found === null ? null : { type: 'application/json', body: JSON.stringify(found) }
}

function listing(path: string): object | null {
  if (path === '/version') return { major: '1', minor: '32', gitVersion: 'v1.32.0-cofferdam-double' }
  if (path === '/api')
    return { kind: 'APIVersions', versions: [CORE_VERSION], serverAddressByClientCIDRs: [] }
  if (path === '/api/v1') return resourceList(CORE_VERSION, ['Pod'])
  // kubectl checks whether the namespace exists. Every namespace does.
  const [, namespace] = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(path) ?? []
  if (namespace !== undefined)
    return { kind: 'Namespace', apiVersion: 'v1', metadata: { name: namespace }, status: { phase: 'Active' } }
  const served = [...Object.keys(GROUPS).map((group) => ({ group, version: VERSION })), ...storedGroups()]
  const groups = served.map(({ group: name, version }) => {
    const only = { groupVersion: `${name}/${version}`, version }
    return { name, versions: [only], preferredVersion: only }
  })
  if (path === '/apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups }
  const [, group = '', version = ''] = /^\/apis\/([^/]+)\/([^/]+)$/.exec(path) ?? []
  const groupVersion = `${group}/${version}`
  const kinds = version === VERSION ? (GROUPS[group] ?? []) : []
  const list = resourceList(groupVersion, kinds)
  return list.resources.length === 0 ? null : list
}

interface ResourceList {
  kind: 'APIResourceList'
  apiVersion: 'v1'
  groupVersion: string
  resources: object[]
}

function resourceList(groupVersion: string, kinds: readonly string[]): ResourceList {
  const resources = kinds.flatMap((kind) => [
    {
      name: PLURALS[kind],
      singularName: kind.toLowerCase(),
      shortNames: SHORT_NAMES[kind],
      namespaced: true,
      kind,
      verbs: VERBS[kind] ?? ALL_VERBS,
    },
    ...(SUBRESOURCES[kind] ?? []).map((part) => ({
      name: `${PLURALS[kind]}/${part}`,
      singularName: '',
      namespaced: true,
      ...(part === 'scale' ? { group: 'autoscaling', version: 'v1', kind: 'Scale' } : { kind }),
      verbs: ['get', 'patch', 'update'],
    })),
  ])
  const all = [...resources, ...storedResources(groupVersion)]
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: all }
}
