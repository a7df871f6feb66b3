/** One sandbox of the double: envd.py in a jail with a home of its own. */
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { SOCKET, startJail, type Jail } from '../jail.ts'

const ENVD = fileURLToPath(new URL('envd.py', import.meta.url))

/** Starts one; resolves when its envd listens. `environment` is what every process of it gets. */
export async function startMachine(token: string, environment: Record<string, string>): Promise<Jail> {
  return await startJail({
    hostname: 'e2b',
    uid: 1000,
    isInit: false,
    command: ['/usr/bin/python3', '-I', '/opt/envd.py', SOCKET],
    shows: [[ENVD, '/opt/envd.py']],
    environment: { ENVD_TOKEN: token, ...environment },
  })
}

/** `[a-z0-9]{20}`: it is a DNS label's beginning. */
export const newSandboxId = (): string =>
  Array.from(randomBytes(20), (byte) => '0123456789abcdefghijklmnopqrstuvwxyz'[byte % 36]).join('')
