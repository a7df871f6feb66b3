/**
 * Schemas of pods: all fields that the double writes, from Kubernetes' OpenAPI description
 * (io.k8s.api.core.v1; the models of `@kubernetes/client-node` 2.0, made from release 1.36).
 * `test/published.test.ts` compares each field with those models.
 */
import type { Schema } from './schema-check.ts'

const text: Schema = { type: 'string' }
const flag: Schema = { type: 'boolean' }
const count: Schema = { type: 'integer', minimum: 0 }
const time: Schema = { type: 'string', format: 'date-time' }
const any: Schema = { type: 'object', preserves: true }
const address: Schema = {
  type: 'array',
  items: { type: 'object', required: ['ip'], properties: { ip: text } },
}

/** A pod's spec. Checks containers only for a name and an image; fields that are not listed here are kept. */
export const POD_SPEC: Schema = {
  type: 'object',
  required: ['containers'],
  preserves: true,
  properties: {
    containers: {
      type: 'array',
      items: { type: 'object', required: ['name'], preserves: true, properties: { name: text, image: text } },
    },
    restartPolicy: { type: 'string', enum: ['Always', 'OnFailure', 'Never'] },
    dnsPolicy: { type: 'string', enum: ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'] },
    schedulerName: text,
    serviceAccountName: text,
    automountServiceAccountToken: flag,
    securityContext: any,
    terminationGracePeriodSeconds: count,
    nodeName: text,
  },
}

export const POD_CONDITION = {
  type: 'object',
  required: ['status', 'type'],
  properties: {
    lastProbeTime: time,
    lastTransitionTime: time,
    message: text,
    observedGeneration: count,
    reason: text,
    status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
    type: text,
  },
} as const satisfies Schema

export const CONTAINER_STATUS = {
  type: 'object',
  required: ['image', 'imageID', 'name', 'ready', 'restartCount'],
  properties: {
    containerID: text,
    image: text,
    imageID: text,
    name: text,
    ready: flag,
    restartCount: count,
    started: flag,
    state: {
      type: 'object',
      properties: {
        running: { type: 'object', properties: { startedAt: time } },
        waiting: { type: 'object', properties: { message: text, reason: text } },
        terminated: {
          type: 'object',
          required: ['exitCode'],
          properties: {
            exitCode: { type: 'integer' },
            reason: text,
            message: text,
            finishedAt: time,
            startedAt: time,
          },
        },
      },
    },
  },
} as const satisfies Schema

export const POD_STATUS = {
  type: 'object',
  properties: {
    conditions: { type: 'array', items: POD_CONDITION },
    containerStatuses: { type: 'array', items: CONTAINER_STATUS },
    hostIP: text,
    hostIPs: address,
    message: text,
    phase: { type: 'string', enum: ['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown'] },
    podIP: text,
    podIPs: address,
    qosClass: { type: 'string', enum: ['BestEffort', 'Burstable', 'Guaranteed'] },
    reason: text,
    startTime: time,
  },
} as const satisfies Schema
