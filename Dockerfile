# The daemon with its Python, its JVM and the jars of the formats. `./dev image` gathers what is mounted here (deploy/image)
# and builds it; no step needs a network, and nothing is fetched when it runs.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /gathered
# Hashes and sums are those of the project's lock files. pip itself is not needed any more.
RUN --mount=type=bind,target=/gathered \
    sha256sum --check --strict SHA256SUMS \
    && python3 -m venv /opt/lakewarden/venv \
    && /opt/lakewarden/venv/bin/pip install --no-cache-dir --no-index --find-links wheels --require-hashes \
        --requirement requirements.txt \
    && /opt/lakewarden/venv/bin/pip uninstall --yes pip setuptools \
    && cp -R jars /opt/lakewarden/jars \
    && install -D --mode 0755 tini /opt/lakewarden/bin/tini

FROM ${BASE}
LABEL org.opencontainers.image.title="lakewarden" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/lakewarden /opt/lakewarden
# Hadoop wants a name for whoever runs it. Only the data folder and /tmp are written to.
RUN useradd --system --uid 185 --gid 0 --no-create-home --home-dir /var/lib/lakewarden lakewarden \
    && install --directory --owner 185 --group 0 --mode 0775 /var/lib/lakewarden
ENV PATH=/opt/lakewarden/venv/bin:$PATH \
    LAKEWARDEN_CACHE=/opt/lakewarden \
    LAKEWARDEN_CONFIG=/etc/lakewarden/lakewarden.yaml \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/lakewarden
USER 185:0
EXPOSE 8080 8081
# Without -g: SIGTERM is for the daemon alone, which ends its workers itself, in its own order.
ENTRYPOINT ["/opt/lakewarden/bin/tini", "--", "lakewarden"]
CMD ["serve"]
