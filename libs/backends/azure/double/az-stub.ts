/** A program called `az` that prints the double's tokens, for AzureCliCredential and for our client. */
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ARM_AUDIENCE, SESSIONS_AUDIENCE, type Identity } from './identity.ts'

export interface AzStub {
  /** Put this folder first in PATH. */
  readonly folder: string
  /** Arguments of every call so far. */
  calls(): Promise<string[]>
}

/** Writes the program into `folder`. With `fails` it exits like an `az` without a login. */
export async function writeAzStub(
  identity: Identity,
  folder: string,
  options: { fails?: boolean } = {},
): Promise<AzStub> {
  const log = join(folder, 'az-calls')
  const answer = (audience: string): string => {
    const { token, expiresOn } = identity.mint(audience, 'az')
    const local = new Date(expiresOn * 1000).toISOString().replace('T', ' ').replace('Z', '000')
    return JSON.stringify({
      accessToken: token,
      expiresOn: local,
      expires_on: expiresOn,
      tenant: 'double',
      tokenType: 'Bearer',
    })
  }
  const body =
    options.fails === true
      ? `echo "ERROR: Please run 'az login' to setup account." >&2\nexit 1`
      : `case "$*" in\n*management.azure.com*) echo '${answer(ARM_AUDIENCE)}' ;;\n*) echo '${answer(SESSIONS_AUDIENCE)}' ;;\nesac`
  await writeFile(join(folder, 'az'), `#!/bin/sh\necho "$*" >> '${log}'\n${body}\n`)
  await chmod(join(folder, 'az'), 0o755)
  await writeFile(log, '')
  return {
    folder,
    calls: async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line !== ''),
  }
}
