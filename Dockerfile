# The daemon with its Python, its JVM and the jars of the formats: `docker build .` in a clone. Nothing is fetched when it runs.
ARG BASE=python:3.11-slim-bookworm

# deploy/image/gather.py brings the wheels, the jars and tini, and checks them against the sums of the project. With the folder
# that `./dev image` has gathered as the context they are there already, and no step needs a network. The packages are also
# installed, because Spark's Ivy brings the jars.
FROM ${BASE} AS gathered
WORKDIR /context
# hadolint ignore=DL3042 # the wheels are gathered from pip's cache
RUN --mount=type=bind,target=/context \
    mkdir /gathered \
    && if [ -f SHA256SUMS ]; then cp -R . /gathered; else \
        python3 -m venv /tools \
        && /tools/bin/pip install --require-hashes --requirement tools/requirements.lock \
        && /tools/bin/pip install --require-hashes --no-build-isolation --requirement deploy/image/requirements.lock \
        && LAKEWARDEN_CACHE=/tmp /tools/bin/python -B -m deploy.image.gather /gathered /tools/bin/python -m pip; \
    fi

FROM ${BASE} AS build
WORKDIR /gathered
# Hashes and sums are those of the project's lock files. pip itself is not needed any more.
RUN --mount=type=bind,from=gathered,source=/gathered,target=/gathered \
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
