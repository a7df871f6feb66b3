import { imageCommands, imageModules, type ImageSize } from '@cofferdam/contract'
import type Docker from 'dockerode'
import { AGENT_DIRECTORY } from './recipe.ts'

/** Runs every interpreter and tool of the image once, like a sandbox. Removes the tag if one fails. */
export async function verifyImage(docker: Docker, tag: string, size: ImageSize): Promise<void> {
  const script = `
    set -e
    python3 -c 'import ctypes, hashlib, multiprocessing, resource, sqlite3, ssl, zlib'
    node -e 'process.exit(0)'
    bash -c 'awk 1 /dev/null'
    for command in ${imageCommands(size).join(' ')}; do
      command -v $command >/dev/null || { echo "$command is not in the image"; exit 1; }
    done
    python3 -c 'import ${imageModules(size).join(', ')}'
    python3 -c 'import numpy, pandas; pandas.DataFrame({"a": [1]}).sum(); numpy.linalg.inv(numpy.eye(2))'
    python3 -m pytest --version
    python3 -m pip --version
    npm --version
    test -r ${AGENT_DIRECTORY}/agent.py`
  const container = await docker.createContainer({
    Image: tag,
    Cmd: ['sh', '-c', script],
    Env: ['HOME=/tmp'],
    NetworkDisabled: true,
    HostConfig: { NetworkMode: 'none', ReadonlyRootfs: true, Tmpfs: { '/tmp': 'mode=1777' } },
  })
  try {
    await container.start()
    const { StatusCode: code } = (await container.wait()) as { StatusCode: number }
    if (code === 0) return
    const logs = await container.logs({ stdout: true, stderr: true })
    await docker.getImage(tag).remove({ force: true })
    // Each line begins with a binary header of 8 bytes from the daemon; only printable characters are kept.
    throw new Error(
      `the image was built but does not work: ${logs.toString('latin1').replace(/[^\x20-\x7e\n]/g, '')}`,
    )
  } finally {
    await container.remove({ force: true, v: true })
  }
}
