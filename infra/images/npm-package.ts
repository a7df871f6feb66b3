/** Fetches the npm of the image with the npm of this host, and checks its digest. */
import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './command.ts'
import { NPM } from './recipe.ts'

/** Directory of the unpacked package, below `scratch`. Throws with what to do if it cannot be fetched. */
export async function fetchNpm(scratch: string): Promise<string> {
  const name = `npm@${NPM.version}`
  await run('npm', ['pack', name, '--pack-destination', scratch], { cwd: scratch }).catch(
    (cause: unknown) => {
      throw new Error(
        `${name} cannot be fetched. Point npm at a registry or mirror that has it (npm config set registry …).`,
        { cause },
      )
    },
  )
  const archive = join(scratch, `npm-${NPM.version}.tgz`)
  const digest = createHash('sha512')
    .update(await readFile(archive))
    .digest('base64')
  if (`sha512-${digest}` !== NPM.integrity)
    throw new Error(`${name} from this host's registry is not the package that infra/images/recipe.ts names.`)
  const directory = join(scratch, 'npm')
  await mkdir(directory)
  // Manual pages and documentation are a third of it.
  const useless = ['--exclude=package/man', '--exclude=package/docs']
  await run('tar', ['-xzf', archive, '-C', directory, '--strip-components=1', ...useless])
  await run('chmod', ['-R', 'u=rwX,go=rX', directory])
  return directory
}
