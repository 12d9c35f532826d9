// Data of the page: columns of whole numbers and texts, deflated and in base64, as report/packing.py writes them.

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A column of unsigned numbers: all lowest bytes come first, then all second ones, and so on. */
async function unpackNumbers({ bytes, length, delta, data }) {
  const planes = await inflate(data);
  const numbers = bytes === 1 ? planes : bytes === 2 ? new Uint16Array(length) : new Uint32Array(length);
  if (bytes > 1) {
    for (let plane = 0; plane < bytes; plane++) {
      const shift = 8 * plane, start = plane * length;
      for (let i = 0; i < length; i++) numbers[i] |= planes[start + i] << shift;
    }
  }
  if (delta) for (let i = 1; i < length; i++) numbers[i] += numbers[i - 1];
  return numbers;
}

async function unpackTexts({ data }) {
  return JSON.parse(new TextDecoder().decode(await inflate(data)));
}
