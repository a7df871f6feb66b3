/** The compose profile `doubles`: with its settings, the worker's backends find the doubles it starts. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createBackends } from '@cofferdam/backends'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { parse } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

needs('bwrap').it('the compose file starts the doubles that its worker is configured for', async () => {
  const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
    services: Record<string, { command?: string[] }>
  }
  const config = read('infra/compose/doubles/cofferdam.config.yaml').replaceAll('/app/', `${ROOT}/`)
  const doubles = Object.entries(services).filter(([name]) => name.startsWith('double-'))
  const running = doubles.map(([, { command = [] }]) =>
    spawn(process.execPath, [join(ROOT, 'apps/cli/src/main.ts'), ...command], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  )
  try {
    await Promise.all(running.map(announced))
    const backends = await createBackends((parse(config) as { backends: object }).backends)
    expect([...backends.keys()]).toEqual(doubles.map(([name]) => name.slice('double-'.length)))
    for (const [name, backend] of backends) {
      expect(await backend.probe(AbortSignal.timeout(20_000)), name).toMatchObject({ ok: true })
      await backend[Symbol.asyncDispose]()
    }
  } finally {
    await Promise.all(running.map(ended))
  }
})

/** Waits until each double prints its address. Fails if one exits. */
async function announced(child: ChildProcess): Promise<void> {
  const said = child.stdout === null ? [] : [once(child.stdout, 'data')]
  const gone = once(child, 'exit').then(([code]) => Promise.reject(new Error(`a double ended with ${code}`)))
  await Promise.race([...said, gone])
  gone.catch(() => undefined)
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}
