/** One sandbox of the double: envd.py in a jail, and in some templates the code interpreter. */
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SOCKET, startJail, type Jail } from '@cofferdam/backend-remote/double'

const HERE = fileURLToPath(new URL('.', import.meta.url))
/** Matches the vendor's template for its code interpreter, and templates whose names begin with that name. */
const HAS_INTERPRETER = /^code-interpreter\b/
const INTERPRETER = 'interpreter'

export interface Machine {
  jail: Jail
  /** Sockets by the port that clients name. */
  ports: ReadonlyMap<string, string>
}

/**
 * Starts a sandbox; resolves when its envd listens. All its processes get the variables of `environment` and
 * `own`. Callers cannot override those in `own`.
 */
export async function startMachine(
  template: string,
  token: string,
  environment: Record<string, string>,
  own: Record<string, string>,
): Promise<Machine> {
  const withInterpreter = HAS_INTERPRETER.test(template)
  const jail = await startJail({
    hostname: 'e2b',
    uid: 1000,
    isInit: false,
    nests: true,
    command: [
      '/usr/bin/python3',
      '-I',
      '/opt/e2b/envd.py',
      SOCKET,
      ...(withInterpreter ? [join(dirname(SOCKET), INTERPRETER)] : []),
    ],
    shows: [[HERE, '/opt/e2b']],
    environment: { ENVD_TOKEN: token, ENVD_ENVIRONMENT: JSON.stringify(environment), ...own },
  })
  return {
    jail,
    ports: new Map([
      ['49983', jail.socket],
      ...(withInterpreter ? [['49999', join(dirname(jail.socket), INTERPRETER)] as const] : []),
    ]),
  }
}

/** `[a-z0-9]{20}`, since it starts a DNS label. */
export const newSandboxId = (): string =>
  Array.from(randomBytes(20), (byte) => '0123456789abcdefghijklmnopqrstuvwxyz'[byte % 36]).join('')
