/**
 * Schemas of Agent Sandbox v1beta1 (helm/crds of kubernetes-sigs/agent-sandbox). Of Kubernetes' own types,
 * only pods have a schema, in outline (pod-schemas.ts). For volumes and policies any object is valid.
 */
import { POD_SPEC, POD_STATUS } from './pod-schemas.ts'
import { check, type Checked, type Schema } from './schema-check.ts'

const text: Schema = { type: 'string' }
const texts: Schema = { type: 'object', additionalProperties: text }
const time: Schema = { type: 'string', format: 'date-time' }
const any: Schema = { type: 'object', preserves: true }
const podMetadata: Schema = { type: 'object', properties: { annotations: texts, labels: texts } }
const named: Schema = { type: 'object', required: ['name'], properties: { name: text } }
const oneOf = (names: string[], standard?: string): Schema => ({
  type: 'string',
  enum: names,
  ...(standard === undefined ? {} : { default: standard }),
})

const volumeClaimTemplates: Schema = {
  type: 'array',
  items: { type: 'object', required: ['spec'], properties: { metadata: any, spec: any } },
}
const blueprint: Record<string, Schema> = {
  podTemplate: {
    type: 'object',
    required: ['spec'],
    properties: {
      metadata: podMetadata,
      spec: POD_SPEC,
    },
  },
  service: { type: 'boolean' },
  volumeClaimTemplates,
}

const SPECS: Record<string, Schema> = {
  Pod: POD_SPEC,
  SandboxClaim: {
    type: 'object',
    required: ['warmPoolRef'],
    properties: {
      warmPoolRef: named,
      lifecycle: {
        type: 'object',
        properties: {
          shutdownTime: time,
          shutdownPolicy: oneOf(['Delete', 'DeleteForeground', 'Retain'], 'Retain'),
          ttlSecondsAfterFinished: { type: 'integer', minimum: 0 },
        },
      },
      additionalPodMetadata: podMetadata,
      env: {
        type: 'array',
        items: {
          type: 'object',
          required: ['name', 'value'],
          properties: { name: text, value: text, containerName: text },
        },
      },
      volumeClaimTemplates,
    },
  },
  SandboxWarmPool: {
    type: 'object',
    required: ['sandboxTemplateRef'],
    properties: {
      replicas: { type: 'integer', minimum: 0, default: 1 },
      sandboxTemplateRef: named,
      updateStrategy: {
        type: 'object',
        properties: { type: oneOf(['Recreate', 'OnReplenish'], 'OnReplenish') },
      },
    },
  },
  SandboxTemplate: {
    type: 'object',
    required: ['podTemplate'],
    properties: {
      ...blueprint,
      networkPolicy: {
        type: 'object',
        properties: { ingress: { type: 'array', items: any }, egress: { type: 'array', items: any } },
      },
      networkPolicyManagement: oneOf(['Managed', 'Unmanaged'], 'Managed'),
      envVarsInjectionPolicy: oneOf(['Allowed', 'Overrides', 'Disallowed'], 'Disallowed'),
      volumeClaimTemplatesPolicy: oneOf(['Disallowed', 'Allowed', 'Overrides'], 'Disallowed'),
    },
  },
  Sandbox: {
    type: 'object',
    required: ['podTemplate'],
    properties: {
      ...blueprint,
      operatingMode: oneOf(['Running', 'Suspended'], 'Running'),
      shutdownTime: time,
      shutdownPolicy: oneOf(['Delete', 'Retain'], 'Retain'),
    },
  },
}

const conditions: Schema = {
  type: 'array',
  items: {
    type: 'object',
    required: ['lastTransitionTime', 'message', 'reason', 'status', 'type'],
    properties: {
      lastTransitionTime: time,
      message: text,
      observedGeneration: { type: 'integer', minimum: 0 },
      reason: text,
      status: oneOf(['True', 'False', 'Unknown']),
      type: text,
    },
  },
}
const podIPs: Schema = { type: 'array', items: text }

const STATUSES: Record<string, Schema> = {
  Pod: POD_STATUS,
  SandboxClaim: {
    type: 'object',
    properties: { conditions, sandbox: { type: 'object', properties: { name: text, podIPs } } },
  },
  SandboxWarmPool: {
    type: 'object',
    properties: {
      observedGeneration: { type: 'integer', minimum: 0 },
      readyReplicas: { type: 'integer' },
      replicas: { type: 'integer' },
      selector: text,
    },
  },
  Sandbox: {
    type: 'object',
    properties: { conditions, nodeName: text, podIPs, selector: text, service: text, serviceFQDN: text },
  },
}

/** A status of that kind as it would be stored. */
export const checkStatus = (kind: string, status: unknown): Checked =>
  check(STATUSES[kind] ?? { type: 'object' }, status, 'status')

/**
 * Throws if Agent Sandbox's schemas do not allow the object. Invalid objects of clients are refused earlier,
 * so this is a bug of the double.
 */
export function requirePublished({
  kind,
  spec,
  status,
}: {
  kind: string
  spec: unknown
  status?: unknown
}): void {
  const parts = [checkSpec(kind, spec), ...(status === undefined ? [] : [checkStatus(kind, status)])]
  const wrong = parts.flatMap(({ causes, unknown }) => [
    ...causes.map(({ field, message }) => `${field}: ${message}`),
    ...unknown.map((field) => `${field} is not published`),
  ])
  if (wrong.length > 0)
    throw new Error(`the double of Kubernetes is not as published: ${kind}: ${wrong.join('; ')}`)
}

/** A spec of that kind as it would be stored. */
export function checkSpec(kind: string, spec: unknown): Checked {
  if (spec === undefined)
    return {
      value: {},
      causes: [{ reason: 'FieldValueRequired', field: 'spec', message: 'Required value' }],
      unknown: [],
    }
  return check(SPECS[kind] ?? any, spec, 'spec')
}
