/** The image on registry bases: Dockerfile, and a context of the guest agent and npm. */
import { spawn } from 'node:child_process'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { imageModules, SURROUNDINGS, type ImageSize } from '@cofferdam/contract'
import { guestDigest } from '@cofferdam/sandbox/guest'
import type Docker from 'dockerode'
import {
  AGENT_LABEL,
  NODE_IMAGE,
  NSSWITCH,
  PYTHON_IMAGE,
  PYTHON_PACKAGES,
  SIZE_LABEL,
  toolsOf,
} from './recipe.ts'

// A reachable registry begins to answer within two seconds. Behind a silent firewall a request would hang.
const FIRST_ANSWER_MS = 8_000

/** Ensures that both bases are on this host. Returns null, or why they are not. */
export async function pullBases(
  docker: Docker,
  images: readonly string[] = [PYTHON_IMAGE, NODE_IMAGE],
): Promise<string | null> {
  for (const image of images) {
    const present = await docker
      .getImage(image)
      .inspect()
      .then(
        () => true,
        () => false,
      )
    if (present) continue
    const failed = await pull(docker, image).then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )
    if (failed !== null) return `${image} cannot be pulled (${failed.trim().slice(0, 300)})`
  }
  return null
}

async function pull(docker: Docker, image: string): Promise<void> {
  const stop = new AbortController()
  const silence = setTimeout(() => stop.abort(new Error('the registry does not answer')), FIRST_ANSWER_MS)
  try {
    const stream: NodeJS.ReadableStream = await docker.pull(image, { abortSignal: stop.signal })
    clearTimeout(silence)
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(stream, (error) => (error === null ? resolve() : reject(error)))
    })
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : error
  } finally {
    clearTimeout(silence)
  }
}

/** Builds `tag` with the daemon's builder. Throws with the output of the failing step. */
export async function buildOnRegistry(build: {
  docker: Docker
  tag: string
  size: ImageSize
  /** Receives the Dockerfile. Contains the guest agent as `agent` and the npm package as `npm`. */
  scratch: string
  /** Default: the bases of recipe.ts. */
  bases?: { python: string; node: string }
}): Promise<void> {
  await copyFile(fileURLToPath(new URL('Dockerfile', import.meta.url)), join(build.scratch, 'Dockerfile'))
  const context = spawn('tar', ['-C', build.scratch, '-c', 'Dockerfile', 'agent', 'npm'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const stream = await build.docker.buildImage(context.stdout, {
    t: build.tag,
    forcerm: true,
    labels: { [AGENT_LABEL]: guestDigest(), [SIZE_LABEL]: build.size },
    buildargs: {
      PYTHON_IMAGE: build.bases?.python ?? PYTHON_IMAGE,
      NODE_IMAGE: build.bases?.node ?? NODE_IMAGE,
      PYTHON_PACKAGES: PYTHON_PACKAGES[build.size].join(' '),
      PYTHON_MODULES: imageModules(build.size).join(', '),
      TOOLS: toolsOf(build.size).join(' '),
      NSSWITCH,
      LINKS: Object.entries(SURROUNDINGS.links)
        .map(([path, target]) => `${path} ${target}`)
        .join('\n'),
    },
  })
  const events = await new Promise<{ error?: string }[]>((resolve, reject) => {
    build.docker.modem.followProgress(stream, (error, output: { error?: string }[]) =>
      error === null ? resolve(output) : reject(error),
    )
  })
  const failed = events.find((event) => event.error !== undefined)
  if (failed !== undefined) throw new Error(`docker build of ${build.tag}: ${failed.error}`)
}
