/** Our client reads Kubernetes' examples, and the double has their fields. */
import { V1ContainerStatus, V1Pod, V1PodCondition, V1PodSpec, V1PodStatus } from '@kubernetes/client-node'
import { expect, it } from 'vitest'
import { CONTAINER_STATUS, POD_CONDITION, POD_SPEC, POD_STATUS } from '../double/pod-schemas.ts'
import { checkSpec, checkStatus } from '../double/schemas.ts'
import { claimSchema, podOf } from '../src/claim-state.ts'

/** From kubernetes-sigs/agent-sandbox (Apache-2.0) @2fd412d5, examples/kata-aks, cut to one container. */
const EXAMPLES: [string, object][] = [
  ['SandboxClaim', { warmPoolRef: { name: 'kata-aks-warmpool' } }],
  [
    'SandboxTemplate',
    {
      envVarsInjectionPolicy: 'Allowed',
      service: true,
      podTemplate: {
        spec: {
          runtimeClassName: 'kata-vm-isolation',
          containers: [{ name: 'agent', image: '${AGENT_IMAGE}', imagePullPolicy: 'Always' }],
        },
      },
      networkPolicyManagement: 'Managed',
      networkPolicy: { egress: [{ ports: [{ protocol: 'TCP', port: 443 }] }] },
    },
  ],
  [
    'SandboxWarmPool',
    {
      replicas: 3,
      sandboxTemplateRef: { name: 'kata-aks-template' },
      updateStrategy: { type: 'OnReplenish' },
    },
  ],
]

it.each(EXAMPLES)('the double’s schema accepts Agent Sandbox’s example of a %s', (kind, spec) => {
  expect(checkSpec(kind, spec)).toMatchObject({ causes: [], unknown: [] })
})

it('reads a claim’s status with every field of its CRD', () => {
  // From kubernetes-sigs/agent-sandbox, helm/crds/extensions.agents.x-k8s.io_sandboxclaims.yaml.
  const status = {
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'DependenciesReady',
        message: 'Sandbox is ready',
        observedGeneration: 1,
        lastTransitionTime: '2026-08-22T00:27:14Z',
      },
    ],
    sandbox: { name: 'kata-aks-warmpool-x7k2p', podIPs: ['10.244.1.7', 'fd00::7'] },
  }
  expect(checkStatus('SandboxClaim', status)).toMatchObject({ causes: [], unknown: [] })
  const claim = claimSchema.parse({ metadata: { name: 'my-aks-agent' }, status })
  expect(podOf(claim)).toEqual({ claim: 'my-aks-agent', name: 'kata-aks-warmpool-x7k2p', ip: '10.244.1.7' })
})

/** How the models of Kubernetes' OpenAPI description name each type of our schemas. */
const PUBLISHED_TYPES: Record<string, RegExp> = {
  string: /^(string|Date)$/,
  integer: /^number$/,
  boolean: /^boolean$/,
  array: /^Array</,
  object: /^V1/,
}

it.each([
  ['PodSpec', POD_SPEC, V1PodSpec],
  ['PodStatus', POD_STATUS, V1PodStatus],
  ['PodCondition', POD_CONDITION, V1PodCondition],
  ['ContainerStatus', CONTAINER_STATUS, V1ContainerStatus],
] as const)(
  'Kubernetes’ double writes only fields of a %s that Kubernetes’ OpenAPI description has',
  (_name, schema, model) => {
    const published = new Map(model.getAttributeTypeMap().map(({ baseName, type }) => [baseName, type]))
    const fields = Object.entries(
      (schema as { properties: Record<string, { type: string; format?: string }> }).properties,
    )
    expect(fields.length).toBeGreaterThan(5)
    for (const [field, { type, format }] of fields) {
      expect(published.get(field), field).toMatch(PUBLISHED_TYPES[type] ?? /never/)
      expect(format === 'date-time', field).toBe(published.get(field) === 'Date')
    }
  },
)

it('Kubernetes’ double has pods with the parts of Kubernetes’ OpenAPI description', () => {
  expect(V1Pod.getAttributeTypeMap().map(({ baseName }) => baseName)).toEqual(
    expect.arrayContaining(['apiVersion', 'kind', 'metadata', 'spec', 'status']),
  )
  const unpublished = { phase: 'Running', ready: true }
  expect(checkStatus('Pod', unpublished)).toMatchObject({ unknown: ['status.ready'] })
  expect(checkStatus('Pod', { phase: 'Ready' }).causes).toHaveLength(1)
})
