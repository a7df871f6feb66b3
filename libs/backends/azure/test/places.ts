/** Shared by the tests of `azure`: a double, a worker's files, and its backend. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend } from '@cofferdam/contract'
import { afterAll } from 'vitest'
import { startAzureDouble, type AzureDouble } from '../double/azure-double.ts'
import { NODE } from '@cofferdam/backend-remote/double'
import {
  VENDOR_THEMES,
  exerciseStarted,
  type Exercised,
  type ExerciseOptions,
} from '@cofferdam/sandbox/conformance'
import { createAzureBackend } from '../src/index.ts'
import type { BackendDeps } from '@cofferdam/sandbox/backend'
import { ownerOf } from '../src/identifier.ts'
import { redisSessions } from '@cofferdam/backend-remote/testing'

export const SECRET = 'identifier-secret-canary-0123456789abcdef'

type Settings = NonNullable<Parameters<typeof createAzureBackend>[0]>

export interface AzurePlaces extends AsyncDisposable {
  readonly double: AzureDouble
  readonly folder: string
  /** Settings for one pool of the double. */
  settings(pool: 'python' | 'shell' | 'custom', more?: Settings): Settings
}

/** Starts a double, with files for the secret and the managed identity's header. */
export async function startAzurePlaces(maxSessions = 40): Promise<AzurePlaces> {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-azure-'))
  const double = await startAzureDouble({
    pools: [
      { name: 'python', kind: 'PythonLTS', maxSessions, keepsReady: true },
      { name: 'shell', kind: 'Shell', maxSessions },
      { name: 'custom', kind: 'CustomContainer', maxSessions, keepsReady: true },
    ],
  })
  writeFileSync(join(folder, 'secret'), SECRET)
  writeFileSync(join(folder, 'header'), `${double.identity.settings.identityHeader}\n`)
  return {
    double,
    folder,
    settings: (pool, more = {}) => ({
      enabled: true,
      identifier_secret_file: join(folder, 'secret'),
      credentials: ['managed-identity'],
      identity_endpoint: double.identityEndpoint,
      identity_header_file: join(folder, 'header'),
      ...(pool === 'custom'
        ? { container_endpoint: double.endpoint(pool) }
        : {
            interpreter_endpoint: double.endpoint(pool),
            interpreter: pool,
            python: '/usr/bin/python3',
            node: NODE,
          }),
      ...more,
    }),
    async [Symbol.asyncDispose]() {
      await double[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Runs the conformance suite with one kind of pool. */
export async function exerciseAzure(pool: 'python' | 'shell' | 'custom', more: Settings = {}): Promise<void> {
  await exerciseStarted('azure', ['bwrap'], () => started(pool, more))
}

async function started(pool: 'python' | 'shell' | 'custom', more: Settings): Promise<Exercised> {
  const places = await startAzurePlaces()
  const sessions = await redisSessions()
  afterAll(async () => {
    await places[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
  })
  const deps: BackendDeps = { sessions }
  const factory = (): Backend => createAzureBackend(places.settings(pool, more), deps)
  const all = (): Promise<{ identifier: string }[]> => places.double.pool(pool).list()
  const options: ExerciseOptions = {
    shortThemes: VENDOR_THEMES,
    surroundings: pool === 'custom' ? 'agent' : 'none',
    leftovers: async (owner) =>
      (await all()).flatMap(({ identifier }) => (ownerOf(identifier) === owner ? [identifier] : [])),
    destroyUnderneath: async (sandbox) => {
      const { owner, seed } = sandbox.ref.handle
      const found = (await all()).find(({ identifier }) => ownerOf(identifier) === owner && seed !== '')
      await places.double.pool(pool).end(found?.identifier ?? '')
    },
    visibleOnHost: true,
    // A worker that polls after a kill creates a new, empty session under the same identifier.
    beginsAnew: true,
  }
  return [factory, options]
}
